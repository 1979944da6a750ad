package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/exchange"
	"sluice/integrity"
	"sluice/metering"
	"sluice/test/testenv"
	"sluice/wire"
)

// notForClients are the sentinels that clients never see as such: they prevent a start, concern a
// background task, or are reported as 500 because clients can do nothing about them.
var notForClients = []string{
	// No route here calls a function that returns these.
	"blob.ErrNoParts", "blob.ErrPartOrder", "blob.ErrPartUnknown", "blob.ErrPartTooSmall", "blob.ErrSource", "blob.ErrNoBucket", "blob.ErrBucketNotEmpty",
	"history.ErrForeignStore", "history.ErrUnfinishedCopy", "blob.ErrLargeSweep", "blob.ErrInvalidName", "blob.errAge",
	"bytestore.ErrNotFound", "bytestore.ErrExists", "bytestore.ErrSize", "bytestore.ErrTruncated", "bytestore.ErrInvalidName", "bytestore.ErrReadOnly",
	"database.ErrNotFound", "database.ErrExpired", "database.ErrNewer", "database.ErrOlder", "database.ErrNodesRun", "database.ErrClock", "database.ErrLongStop", "database.ErrDamagedRow",
	"access/keys.ErrGroupLimits", "access/actions.ErrStale", "access/actions.ErrTooMany", // which package admin handles
	"paychan.ErrUncollected", "metastore.ErrNameHasBlobs", "metastore.ErrTooManyAliases", "metastore.ErrTooManyWebhooks", "metastore.ErrWebhookChanged",
}

func TestEverySentinelHasAStatus(t *testing.T) {
	var texts []string
	for _, row := range errorTable.Rows() {
		texts = append(texts, row.Is.Error())
	}
	known := map[string]bool{}
	for _, pkg := range []string{"blob", "history", "integrity", "session", "paychan", "access", "access/keys", "access/actions", "admin", "bytestore", "database", "metastore", "ledger", "metering"} {
		for name, text := range testenv.Sentinels(t, "../"+pkg) {
			known[pkg+"."+name] = true
			listed := slices.Contains(texts, text)
			exempt := slices.Contains(notForClients, pkg+"."+name)
			if listed == exempt {
				t.Errorf("%s.%s: in the error table: %t, exempt from it: %t", pkg, name, listed, exempt)
			}
		}
	}
	for _, name := range notForClients {
		if !known[name] {
			t.Errorf("%s is exempt, and there is no such error", name)
		}
	}
	for _, dir := range []string{".", "internal/router", "../exchange", "../exchange/headers", "../exchange/transfer"} {
		for name, text := range testenv.Sentinels(t, dir) {
			if !slices.Contains(texts, text) && name != "ErrSlowReader" { // a response that has begun is cut
				t.Errorf("%s of %s is not in the error table", name, dir)
			}
		}
	}
}

func TestEveryCodeIsUsedAndDocumented(t *testing.T) {
	protocol := testenv.Must(os.ReadFile("../docs/protocol.md"))(t)
	documented := map[string]bool{} // a status and a code
	for line := range strings.Lines(string(protocol)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, code := range strings.Split(cells[2], ",") {
				documented[strings.TrimSpace(cells[1])+" "+strings.TrimSpace(code)] = true
			}
		}
	}
	used := []wire.Code{wire.CodeFaultInjected, exchange.InternalError.Code, wire.CodeBadAccount, wire.CodeBadName}
	for _, row := range errorTable.Rows() {
		used = append(used, row.Code)
	}
	for _, row := range wire.Codes {
		if !slices.Contains(used, row.Code) {
			t.Errorf("code %s is never sent", row.Code)
		}
		statuses := []string{strconv.Itoa(row.Status)}
		if row.Status == 0 {
			statuses = []string{"400 to 599"}
		}
		if row.Payment {
			statuses = append(statuses, "402")
		}
		for _, status := range statuses {
			if !documented[status+" `"+string(row.Code)+"`"] {
				t.Errorf("code %s with status %s is not in docs/protocol.md", row.Code, status)
			}
		}
	}
}

func TestRowOf(t *testing.T) {
	_, accountErr := blob.ParseAccount("0x")
	cases := []struct {
		err    error
		status int
		code   wire.Code
	}{
		{accountErr, http.StatusBadRequest, wire.CodeBadAccount},
		{blob.CheckName(""), http.StatusBadRequest, wire.CodeBadName},
		{exchange.BlobError(fmt.Errorf("x: %w", database.ErrNotFound)), http.StatusNotFound, wire.CodeBlobNotFound},
		{exchange.BlobError(database.ErrExpired), http.StatusGone, wire.CodeBlobExpired},
		{sessionError(database.ErrNotFound), http.StatusNotFound, wire.CodeSessionNotFound},
		{sessionError(database.ErrExpired), http.StatusGone, wire.CodeSessionExpired},
		{metering.ErrSessionExpired, http.StatusPaymentRequired, wire.CodeSessionExpired},
		{exchange.UploadError(database.ErrNotFound), http.StatusNotFound, wire.CodeUploadNotFound},
		{fmt.Errorf("put: %w", bytestore.ErrNoSpace), http.StatusInsufficientStorage, wire.CodeStorageFull},
		{&exchange.UnsatisfiedRange{Size: 5}, http.StatusRequestedRangeNotSatisfiable, wire.CodeRangeNotSatisfiable},
		{errors.New("the password is hunter2"), http.StatusInternalServerError, wire.CodeInternal},
		{integrity.ErrCorrupt, http.StatusInternalServerError, wire.CodeDamaged},
	}
	for _, c := range cases {
		row := errorTable.RowOf(c.err)
		if row.Status != c.status || row.Code != c.code {
			t.Errorf("%v: %d %s, want %d %s", c.err, row.Status, row.Code, c.status, c.code)
		}
		if row.Status == http.StatusInternalServerError && strings.Contains(row.Detail, c.err.Error()) {
			t.Errorf("%v: the response contains the cause", c.err)
		}
	}
}
