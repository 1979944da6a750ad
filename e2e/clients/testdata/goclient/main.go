// This program calls a server with the client that oapi-codegen generates into the package api.
// It prints "ok" if every response is the described one.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"generatedclient/api"
)

func main() {
	log.SetFlags(log.Lshortfile)
	c, err := api.NewClientWithResponses(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	blobs(ctx, c)
	uploads(ctx, c)
	sessions(ctx, c)
	channels(ctx, c)
	service(ctx, c)
	fmt.Println("ok")
}

// must returns the response of a call, and ends the program if there is none.
func must[R any](r R, err error) R {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
	return r
}

func check(ok bool, format string, a ...any) {
	if !ok {
		log.Output(2, fmt.Sprintf(format, a...))
		os.Exit(1)
	}
}

func pointer[T any](v T) *T { return &v }

const account, name, text = "0x1", "folder/hello world.txt", "hello, world"

func blobs(ctx context.Context, c *api.ClientWithResponses) {
	once := &api.PutBlobParams{IfNoneMatch: pointer("*")}
	put := must(c.PutBlobWithBodyWithResponse(ctx, account, name, once, "text/plain", strings.NewReader(text)))
	check(put.StatusCode() == 204, "PUT: %s %s", put.Status(), put.Body)
	put = must(c.PutBlobWithBodyWithResponse(ctx, account, name, once, "text/plain", strings.NewReader(text)))
	check(put.StatusCode() == 412 && put.ApplicationproblemJSON412 != nil && put.ApplicationproblemJSON412.Code == "precondition_failed", "PUT: %s %s", put.Status(), put.Body)
	get := must(c.GetBlobWithResponse(ctx, account, name, &api.GetBlobParams{Range: pointer("bytes=7-")}))
	check(get.StatusCode() == 206 && string(get.Body) == "world", "GET: %s %q", get.Status(), get.Body)
	absent := must(c.GetBlobWithResponse(ctx, account, "absent", nil))
	check(absent.ApplicationproblemJSON404 != nil && absent.ApplicationproblemJSON404.Code == "blob_not_found", "GET: %s %s", absent.Status(), absent.Body)

	list := must(c.ListBlobsWithResponse(ctx, account, &api.ListBlobsParams{Prefix: pointer("folder/"), Limit: pointer(10)}))
	check(list.JSON200 != nil && len(list.JSON200.Blobs) == 1 && list.JSON200.Blobs[0].Name == name && list.JSON200.Blobs[0].Size == int64(len(text)),
		"list: %s", list.Body)
	accounts := must(c.ListAccountsWithResponse(ctx, nil))
	check(accounts.JSON200 != nil && len(accounts.JSON200.Accounts) == 1 && accounts.JSON200.Accounts[0] == (api.Account{Account: account, Blobs: 1, Bytes: int64(len(text))}),
		"accounts: %s", accounts.Body)
	removed := must(c.DeleteBlobWithResponse(ctx, account, name, nil))
	check(removed.StatusCode() == 204, "DELETE: %s", removed.Status())
}

func uploads(ctx context.Context, c *api.ClientWithResponses) {
	begun := must(c.BeginUploadWithResponse(ctx, api.BeginUpload{RawAccount: account, RawBlobName: name, RawPartSize: pointer(int64(8))}))
	check(begun.JSON200 != nil, "begin: %s", begun.Body)
	id := begun.JSON200.UploadId
	for i := range 2 {
		part := must(c.PutPartWithBodyWithResponse(ctx, id, i, nil, "application/octet-stream", bytes.NewReader([]byte(text)[8*i:min(8*i+8, len(text))])))
		check(part.JSON200 != nil && part.JSON200.Success, "part: %s", part.Body)
	}
	state := must(c.GetUploadWithResponse(ctx, id, nil))
	check(state.JSON200 != nil && len(state.JSON200.Parts) == 2 && state.JSON200.Bytes == int64(len(text)) && string(state.JSON200.State) == "open", "upload: %s", state.Body)
	open := must(c.ListUploadsWithResponse(ctx, &api.ListUploadsParams{Account: account}))
	check(open.JSON200 != nil && len(open.JSON200.Uploads) == 1 && open.JSON200.Uploads[0].UploadId == id, "uploads: %s", open.Body)
	done := must(c.CompleteUploadWithResponse(ctx, id, api.CompleteUpload{TotalBytes: pointer(int64(len(text)))}))
	check(done.JSON200 != nil && done.JSON200.Success, "complete: %s", done.Body)
	get := must(c.GetBlobWithResponse(ctx, account, name, nil))
	check(string(get.Body) == text, "GET: %s %q", get.Status(), get.Body)
	late := must(c.AbortUploadWithResponse(ctx, id))
	check(late.ApplicationproblemJSON409 != nil, "abort: %s %s", late.Status(), late.Body)
}

func sessions(ctx context.Context, c *api.ClientWithResponses) {
	created := must(c.CreateSessionWithResponse(ctx, nil, api.CreateSession{UserIdentity: pointer("alice")}))
	check(created.JSON201 != nil && created.JSON201.ChunksetsLeft == created.JSON201.ChunksetsTotal, "create: %s", created.Body)
	id := created.JSON201.SessionId
	used := must(c.UseSessionWithResponse(ctx, id, nil))
	check(used.StatusCode() == 200 && used.HTTPResponse.Header.Get("Chunksets-Left") == "999", "use: %s", used.Body)
	session := must(c.GetSessionWithResponse(ctx, id))
	check(session.JSON200 != nil && session.JSON200.ChunksetsLeft == 999 && *session.JSON200.UserIdentity == "alice", "session: %s", session.Body)
}

func channels(ctx context.Context, c *api.ClientWithResponses) {
	var deposit, more api.Amount
	check(deposit.FromAmount0("1000") == nil && more.FromAmount1(500) == nil, "amounts")
	opened := must(c.OpenChannelWithResponse(ctx, nil, api.OpenChannel{Deposit: &deposit}))
	check(opened.JSON201 != nil && opened.JSON201.Deposit == "1000", "open: %s", opened.Body)
	id := opened.JSON201.ChannelId
	added := must(c.AddDepositWithResponse(ctx, id, nil, api.AddDeposit{Amount: more}))
	check(added.JSON200 != nil && added.JSON200.Deposit == "1500", "deposit: %s", added.Body)
	channel := must(c.GetChannelWithResponse(ctx, id))
	check(channel.JSON200 != nil && string(channel.JSON200.State) == "open", "channel: %s", channel.Body)
	closed := must(c.CloseChannelWithResponse(ctx, id))
	check(closed.JSON200 != nil && string(closed.JSON200.State) == "closed", "close: %s", closed.Body)
}

func service(ctx context.Context, c *api.ClientWithResponses) {
	info := must(c.GetInfoWithResponse(ctx))
	check(info.JSON200 != nil && string(info.JSON200.Profile) == "local" && info.JSON200.ChunkSize == 1<<20 && info.JSON200.Limits.MaxPageSize == 1000 && info.JSON200.Payment.Receiver != "",
		"info: %s", info.Body)
	for _, probe := range []int{must(c.LivezWithResponse(ctx)).StatusCode(), must(c.ReadyzWithResponse(ctx)).StatusCode()} {
		check(probe == http.StatusOK, "probe: %d", probe)
	}
	document := must(c.OpenAPIWithResponse(ctx))
	check(document.YAML200 != nil && (*document.YAML200)["openapi"] == "3.1.0", "openapi.yaml: %s", document.Status())
}
