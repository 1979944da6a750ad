package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/places"
	"sluice/cmd/sluice/internal/cli"
	"sluice/metastore"
	"sluice/node"
	"sluice/storage"
	"sluice/test/testenv"
	"sluice/wire"
)

// administered is a hosted instance that is served, with the two ways to administer it.
type administered struct {
	data string
	ways map[string][]string // the flags that name it
	node *node.Node
}

// administer serves a data folder until the test ends. It has a key for all accounts.
func administer(t *testing.T, flags ...string) *administered {
	t.Helper()
	return administerAt(t, nil, flags...)
}

// administerAt serves a database, named by flags, with a data folder, which has the database if
// there are no flags.
func administerAt(t *testing.T, database []string, flags ...string) *administered {
	t.Helper()
	ownContexts(t)
	a := &administered{data: filepath.Join(testenv.MemoryDir(t), "data")}
	if flags = append(flags, database...); database == nil {
		database = []string{"--data", a.data}
	}
	admin, _ := makeKey(t, a.data, append([]string{"--scopes", "admin", "--all-accounts", "--group", "ops"}, database...)...)
	file := filepath.Join(testenv.MemoryDir(t), "admin.key")
	testenv.OK(t, os.WriteFile(file, []byte(admin), 0o600))
	c, err := parse(t, append(slices.Concat(inProduction, flags), "--data", a.data, "--addr", "127.0.0.1:0", "--admin-addr", "off", "--drain-wait", "0s")...)
	testenv.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	a.node = testenv.Must(node.Open(t.Context(), c, log, log))(t)
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- a.node.Run(signals, nil) }()
	testenv.AtEnd(t, func() error {
		signals <- syscall.SIGTERM
		return <-ended
	})
	a.ways = map[string][]string{"database": database, "server": {"--url", a.node.URL(), "--key-file", file}}
	return a
}

// Parts of outputs that differ with each call.
var (
	anyCredential = regexp.MustCompile(`sluice_[a-z2-7]{16}_[a-z2-7]+`)
	anyS3Secret   = regexp.MustCompile(`\b[a-z2-7]{40}\b`)
	anyKeyID      = regexp.MustCompile(`\b[a-z2-7]{16}\b`)
	anyTag        = regexp.MustCompile(`"etag":"[^,}]*"`)
	anyRun        = regexp.MustCompile(`(?m)("running"|"next"|"last"|"wanted").*|^TASK.*|(waiting|running|starting|paused) .*`)
	anyTime       = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\.\d+)?Z`)
)

func withoutChanging(text string) string {
	text = anyCredential.ReplaceAllString(text, "CREDENTIAL")
	text = anyS3Secret.ReplaceAllString(text, "S3SECRET")
	text = anyKeyID.ReplaceAllString(text, "ID")
	text = strings.ReplaceAll(text, `"by":"ID",`, "") // who has blocked; absent: the operator at the database
	text = anyTag.ReplaceAllString(text, `"etag":TAG`)
	return anyTime.ReplaceAllString(text, "TIME")
}

// TestCommandsOnBothWays runs each command for administrators by the database and by the server of
// one instance: exit codes, outputs and JSON are the same. KEY is a new key in the group team, and
// NAME a new name.
// Invariant 205.
func TestCommandsOnBothWays(t *testing.T) {
	s3 := masterFile(t, "01")
	a := administer(t, "--s3-secret-key-file", s3)
	must(t, keyCommandOn(a.data, "create", "--scopes", "write", "--accounts", "team", "--group", "team", "--label", "the first", "--stored-bytes", "1G")...)
	must(t, "bucket", "alias", "--data", a.data, "photos", "0x1")
	stores := testenv.Must(storage.OpenMeta(t.Context(), storage.Location{Data: a.data}, false))(t)
	testenv.AtEnd(t, stores.Close)
	for _, id := range []string{"b", "a"} {
		u := metastore.Upload{ID: id, Account: "team" + id, Name: "n " + id, Content: metastore.NewContentID(time.Now()), PartSize: 5, Owner: "team"}
		testenv.Must(stores.Meta.BeginUpload(t.Context(), u))(t)
	}
	b := metastore.Blob{Account: "team", Name: "n\u202ea", Content: metastore.NewContentID(time.Now()), Size: 9}
	testenv.Must(stores.Meta.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 9, Blocks: []uint32{1}, Object: "o", Created: time.Now()}}, nil))(t)
	guarded := places.Place{Account: "guarded"}
	testenv.Must(stores.Meta.ChangePlaces(t.Context(), guarded.Account, []places.Place{guarded}, func(of map[places.Place]places.Settings) (*actions.Act, error) {
		of[guarded] = places.Settings{MayOpen: true, Guard: places.RefusePolicies}
		return nil, nil
	}))(t)
	testenv.Must(stores.Meta.RecordDamage(t.Context(), metastore.Damage{ExtentID: metastore.ExtentID{Content: b.Content}, Size: 9, Object: "o", Bad: 1, Reason: "differs"}))(t)

	rules := filepath.Join(t.TempDir(), "rules.json")
	testenv.OK(t, os.WriteFile(rules, []byte(`[{"id":"all","prefix":"n","expireOn":"2026-01-01T00:00:00Z"}]`), 0o600))
	for _, c := range []struct {
		line string
		code int
	}{
		{"key list", 0}, {"key show KEY", 0}, {"key show none", cli.ExitNotFound}, {"key show sluice_none_x", cli.ExitNotFound},
		{"key create --scopes read --accounts team,0x1 --prefix a/ --expires 30d --label x", 0},
		{"key create --grant create@team --grant write@team/locks/ --group team", 0},
		{"key create --scopes read --all-accounts --s3 S3FILE", 0},
		{"key create --scopes read --all-accounts --group team --stored-bytes 2G", cli.ExitRefused},
		{"key create --scopes read --all-accounts --label \x1b", cli.ExitFailed},
		{"key create --scopes read --all-accounts --expires 2001-01-01", cli.ExitUsage},
		{"key create --scopes read --all-accounts --expires 1s --group bad/name", cli.ExitFailed},
		{"key update KEY --label y --expires 2040-01-01", 0}, {"key update KEY --scopes read --prefix b/", 0}, {"key update KEY --grant read@* --expires never", 0},
		{"key update KEY --new-secret", 0}, {"key update KEY --s3 S3FILE", 0}, {"key update KEY --no-s3", 0},
		{"key update none --label y", cli.ExitNotFound}, {"key update none --prefix y", cli.ExitNotFound}, {"key update KEY --expires 2001-01-01", cli.ExitUsage},
		{"key revoke KEY", 0}, {"key revoke none", cli.ExitNotFound},
		{"group list", 0}, {"group show team", 0}, {"group show none", cli.ExitNotFound},
		{"group set team --stored-bytes 2G --default channels", 0}, {"group set none --channels 1", cli.ExitNotFound},
		{"bucket list", 0}, {"bucket alias NAME 0x01", 0}, {"bucket alias photos 0x1", 0}, {"bucket alias photos eve", cli.ExitRefused}, {"bucket alias team eve", cli.ExitRefused},
		{"bucket remove NAME", cli.ExitNotFound}, {"bucket alias X eve", cli.ExitUsage},
		{"bucket versions", 0}, {"bucket versions team", 0}, {"bucket versions team on --for 30d --most 5", 0}, {"bucket versions team off --for unlimited", 0}, {"bucket versions", 0},
		{"bucket versions team on --for 1ms", cli.ExitFailed}, {"bucket versions team on --most none", cli.ExitUsage}, {"bucket versions team maybe", cli.ExitUsage}, {"bucket versions team --most 5", cli.ExitUsage},
		{"bucket versions NAME on --locks --yes --lock-for 30d --lock-most 90d", 0}, {"bucket versions NAME on --locks --yes --lock-for 91d --lock-most 90d", cli.ExitFailed}, {"bucket versions NAME on --lock-for 30d", cli.ExitUsage},
		{"bucket rules", 0}, {"bucket rules team", 0}, {"bucket rules team RULES --preview", 0}, {"bucket rules NAME RULES --yes", 0}, {"bucket rules team none", cli.ExitNotFound},
		{"upload ls", 0}, {"upload ls teama", 0}, {"upload ls other", 0},
		{"place set team --may-open --lists key READS", 0}, {"place set team/photos/ public READS", 0}, {"place set team/a b --prefix READS", cli.ExitUsage}, {"place set other public READS", cli.ExitRefused},
		{"place set guarded public READS", cli.ExitRefused}, {"place show guarded READS", 0},
		{"place set team/ab --prefix above READS", 0}, {"place set team/x free READS", cli.ExitFailed}, {"place set team READS", cli.ExitUsage}, {"place show team/photos/cat.jpg READS", 0},
		{"place block team/photos/cat.jpg order", 0}, {"place unblock team/photos/cat.jpg", 0}, {"place block team stop", 0}, {"place list", 0}, {"place list team", 0}, {"place show team/photos/ READS", 0},
		{"task pause sweep", 0}, {"task start sweep", cli.ExitRefused}, {"task resume sweep", 0}, {"task pause scrub", cli.ExitRefused}, {"task start none", cli.ExitNotFound}, {"task resume none", cli.ExitNotFound},
		{"check --recorded", cli.ExitDamaged}, {"action list -n 3", 0}, {"action list", 0},
	} {
		for _, format := range []string{"", "--json"} {
			got := map[string]ran{}
			for way, flags := range a.ways {
				line := strings.NewReplacer("S3FILE", "", "READS", "", "RULES", rules)
				if way == "database" { // a server has the settings
					line = strings.NewReplacer("S3FILE", "--s3-secret-key-file "+s3, "READS", "--reads key", "RULES", rules)
				}
				args := strings.Fields(line.Replace(c.line))
				for i, arg := range args {
					switch arg {
					case "KEY":
						_, args[i] = makeKey(t, a.data, "--scopes", "read", "--accounts", "team", "--group", "team")
					case "NAME":
						args[i] = strings.ToLower(rand.Text()[:16])
					}
				}
				if format != "" {
					args = append(args, format)
				}
				r := sluice(append(args, flags...)...)
				if r.code != c.code {
					t.Errorf("%s %s by the %s: %+v, want exit code %d", c.line, format, way, r, c.code)
				}
				if strings.HasPrefix(c.line, "task") { // their runs go on
					r.stdout = anyRun.ReplaceAllString(r.stdout, "")
				}
				r.stdout, r.stderr = withoutChanging(r.stdout), withoutChanging(r.stderr)
				if r.code != 0 && r.code != cli.ExitNotFound && r.code != cli.ExitDamaged {
					r.stderr = "" // a server's errors have their status
				}
				got[way] = r
			}
			if got["database"] != got["server"] {
				t.Errorf("%s %s differs\nby the database: %+v\n  by the server: %+v", c.line, format, got["database"], got["server"])
			}
			if c.line == "place list" && format == "" && !strings.Contains(got["server"].stdout, " permitted guarded ") {
				t.Errorf("the places are %s", got["server"].stdout)
			}
			if c.code == 0 && strings.Contains(c.line, "list") && got["server"].stdout == "" {
				t.Errorf("%s %s prints nothing", c.line, format)
			}
		}
	}
}

// TestTasksAndNodes lists them by a server, and starts a task by the database: the leader obeys.
func TestTasksAndNodes(t *testing.T) {
	a := administer(t)
	by := func(way string, args ...string) ran { return must(t, append(args, a.ways[way]...)...) }
	if r := by("server", "node", "list"); !strings.Contains(r.stdout, " ready ") || strings.Count(r.stdout, "\n") != 2 {
		t.Errorf("the nodes are %+v", r)
	}
	if r := by("database", "node", "list"); r.stdout != "" || !strings.Contains(r.stderr, "No node shares this database") {
		t.Errorf("the nodes of a data folder are %+v", r)
	}
	began := time.Now()
	by("database", "task", "start", "free_garbage")
	obeyed := func() bool {
		for line := range strings.Lines(by("server", "task", "list", "--json").stdout) {
			var task wire.Task
			testenv.OK(t, json.Unmarshal([]byte(line), &task))
			if task.Task == "free_garbage" {
				return task.Wanted.IsZero() && task.Last != nil && task.Last.Began.After(began.Add(-time.Second))
			}
		}
		return false
	}
	for !obeyed() {
		if time.Since(began) > time.Minute {
			t.Fatal("the leader has not run the task")
		}
	}
}

// TestAdministrationWithoutDatabase: while PostgreSQL is out of reach, commands fail by both ways
// with the same exit code, print nothing, and name the cause.
func TestAdministrationWithoutDatabase(t *testing.T) {
	pg := testenv.StartPostgres(t)
	a := administerAt(t, []string{"--meta", pg.DSN()})
	lines := []string{"key list", "key create --scopes read --accounts team", "upload ls", "node list"}
	run := func(line, way string) ran { return sluice(append(strings.Fields(line), a.ways[way]...)...) }
	for _, line := range lines {
		for way := range a.ways {
			if r := run(line, way); r.code != 0 {
				t.Errorf("%s by the %s: %+v", line, way, r)
			}
		}
	}
	testenv.OK(t, pg.Stop())
	a.ways["server"] = append(a.ways["server"], "--retry-for", "0s")
	for _, line := range lines {
		for way, cause := range map[string]string{"database": "connect", "server": "The database is unreachable"} {
			if r := run(line, way); r.code != cli.ExitFailed || r.stdout != "" || !strings.Contains(r.stderr, cause) {
				t.Errorf("%s by the %s: %+v, want exit code %d because of %s", line, way, r, cli.ExitFailed, cause)
			}
		}
	}
	testenv.OK(t, pg.Start())
}

// TestLostSecretIsReplaced loses the responses to creations of a key: its secret is replaced, and
// the printed one is valid; if all are lost, the error says how to find the key.
// Invariant 204.
func TestLostSecretIsReplaced(t *testing.T) {
	a := administer(t)
	to := testenv.Must(url.Parse(a.node.URL()))(t)
	to.Path = ""
	var losses atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && losses.Add(-1) >= 0 {
			return errors.New("the response is lost")
		}
		return nil
	}
	s := httptest.NewServer(proxy)
	defer s.Close()
	through := []string{"key", "create", "--url", s.URL + "/sluice", "--key-file", a.ways["server"][3], "--scopes", "read", "--accounts", "bob", "--label", "lost"}

	losses.Store(2)
	made := shown(t, must(t, append(through, "--json")...))[0]
	stores := testenv.Must(storage.OpenMeta(t.Context(), storage.Location{Data: a.data}, false))(t)
	testenv.AtEnd(t, stores.Close)
	caller, err := access.NewAuthenticator(stores.Meta, access.AuthenticatorOptions{}).Authenticate(t.Context(), made.Secret)
	if err != nil || caller.ID() != made.ID || made.Remedy != "" {
		t.Errorf("printed is %+v: %v", made, err)
	}
	losses.Store(1 << 30)
	r := sluice(through...)
	if r.code != cli.ExitFailed || r.stdout != "" || !strings.Contains(r.stderr, "sluice key list shows whether the key was created") {
		t.Errorf("nothing is known: %+v", r)
	}
	if n := strings.Count(must(t, keyCommandOn(a.data, "list")...).stdout, `"lost"`); n != 2 {
		t.Errorf("%d keys, want one for each command", n)
	}
}

// TestLastAdministratorIsKept: a server needs --force to lose its last administrator.
func TestLastAdministratorIsKept(t *testing.T) {
	a := administer(t)
	key := shown(t, must(t, keyCommandOn(a.data, "list", "--json")...))[0]
	by := func(args ...string) ran { return sluice(append(args, a.ways["server"]...)...) }
	for _, args := range [][]string{{"key", "revoke", key.ID}, {"key", "update", key.ID, "--scopes", "read"}} {
		if r := by(args...); r.code != cli.ExitRefused || !strings.Contains(r.stderr, "last_admin_key") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := by("key", "revoke", key.ID, "--force"); r.code != 0 {
		t.Errorf("with --force: %+v", r)
	}
	if r := by("key", "list"); r.code != cli.ExitRefused || !strings.Contains(r.stderr, "the key comes from --key-file") {
		t.Errorf("with a revoked key: %+v", r)
	}
}

// TestVariablesNameTheInstance checks which of a server and a database a command administers.
func TestVariablesNameTheInstance(t *testing.T) {
	a := administer(t)
	other := filepath.Join(testenv.MemoryDir(t), "other")
	must(t, keyCommandOn(other, "create", "--scopes", "read", "--accounts", "bob", "--label", "theirs")...)
	t.Setenv("SLUICE_KEY_FILE", a.ways["server"][3])
	for _, c := range []struct {
		url, data string // variables
		args      []string
		other     bool // the other instance
	}{
		{a.node.URL(), "", nil, false},
		{"", other, nil, true},
		{a.node.URL(), other, nil, true}, // as in a node's container
		{a.node.URL(), "", []string{"--data", other}, true},
		{"http://127.0.0.1:1", other, []string{"--url", a.node.URL()}, false},
	} {
		t.Setenv("SLUICE_URL", c.url)
		if c.data != "" {
			t.Setenv("SLUICE_DATA", c.data)
		} else {
			testenv.OK(t, os.Unsetenv("SLUICE_DATA"))
		}
		r := must(t, append([]string{"key", "list"}, c.args...)...)
		testenv.Equal(t, strings.Contains(r.stdout, "theirs"), c.other, "%+v lists the other instance,", c)
	}
}
