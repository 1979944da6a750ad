// Calls a server with a client. openapi-typescript generates the client's types into ./api.d.ts.
// Each line that it prints is a JSON object with a case's name, and an error if it failed.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const account = "0x1", blobName = "folder/hello world.txt", text = "hello, world";

const check = (ok: boolean, what: unknown): void => {
  if (!ok) throw new Error(JSON.stringify(what));
};

async function blobs(): Promise<void> {
  const path = { account, blobName };
  const put = (body: string) =>
    client.PUT("/v1/blobs/{account}/{blobName}", {
      params: { path, header: { "If-None-Match": "*" } },
      body, bodySerializer: (b) => b, headers: { "Content-Type": "text/plain" },
    });
  const first = await put(text);
  check(first.response.status === 204, first.error);
  const second = await put(text);
  check(second.response.status === 412 && second.error?.code === "precondition_failed", second.error);
  const get = await client.GET("/v1/blobs/{account}/{blobName}", { params: { path, header: { Range: "bytes=7-" } }, parseAs: "text" });
  check(get.response.status === 206 && get.data === "world", get);
  const absent = await client.GET("/v1/blobs/{account}/{blobName}", { params: { path: { account, blobName: "absent" } } });
  check(absent.error?.code === "blob_not_found" && absent.error.status === 404, absent.error);
  const list = await client.GET("/v1/blobs/{account}", { params: { path: { account }, query: { prefix: "folder/", limit: 10 } } });
  check(list.data?.blobs[0]?.name === blobName && list.data.blobs[0].size === text.length, list);
  const accounts = await client.GET("/v1/accounts", { params: { query: { limit: 1 } } });
  check(accounts.data?.accounts[0]?.blobs === 1 && accounts.data.accounts[0].bytes === text.length, accounts);
  const removed = await client.DELETE("/v1/blobs/{account}/{blobName}", { params: { path } });
  check(removed.response.status === 204, removed.error);
}

async function uploads(): Promise<void> {
  const begun = await client.POST("/v1/multipart-uploads", { body: { rawAccount: account, rawBlobName: blobName, rawPartSize: 8 } });
  const uploadId = begun.data!.uploadId;
  for (const partIdx of [0, 1]) {
    const part = await client.PUT("/v1/multipart-uploads/{uploadId}/parts/{partIdx}", {
      params: { path: { uploadId, partIdx } }, body: text.slice(8 * partIdx, 8 * partIdx + 8), bodySerializer: (b) => b,
      headers: { "Content-Type": "application/octet-stream" },
    });
    check(part.data?.success === true, part.error);
  }
  const state = await client.GET("/v1/multipart-uploads/{uploadId}", { params: { path: { uploadId } } });
  check(state.data?.parts.length === 2 && state.data.state === "open" && state.data.bytes === text.length, state);
  const open = await client.GET("/v1/multipart-uploads", { params: { query: { account } } });
  check(open.data?.uploads[0]?.uploadId === uploadId, open);
  const done = await client.POST("/v1/multipart-uploads/{uploadId}/complete", { params: { path: { uploadId } }, body: { totalBytes: text.length } });
  check(done.data?.success === true, done.error);
  const late = await client.DELETE("/v1/multipart-uploads/{uploadId}", { params: { path: { uploadId } } });
  check(late.response.status === 409, late);
}

async function sessions(): Promise<void> {
  const created = await client.POST("/v1/sessions", { body: { userIdentity: "alice" } });
  const session: components["schemas"]["Session"] = created.data!;
  const path = { sessionId: session.sessionId };
  const used = await client.POST("/v1/sessions/{sessionId}/use", { params: { path } });
  check(used.response.headers.get("Chunksets-Left") === "999", used.error);
  const got = await client.GET("/v1/sessions/{sessionId}", { params: { path } });
  check(got.data?.chunksetsLeft === 999 && got.data.userIdentity === "alice", got);
}

async function channels(): Promise<void> {
  const opened = await client.POST("/v1/sessions/micropaymentchannels", { body: { deposit: "1000" } });
  const path = { channelId: opened.data!.channelId };
  const added = await client.POST("/v1/sessions/micropaymentchannels/{channelId}/deposit", { params: { path }, body: { amount: 500 } });
  check(added.data?.deposit === "1500", added);
  const closed = await client.POST("/v1/sessions/micropaymentchannels/{channelId}/close", { params: { path } });
  check(closed.data?.state === "closed", closed);
}

async function service(): Promise<void> {
  const info = await client.GET("/v1/info");
  const limits: components["schemas"]["Limits"] = info.data!.limits;
  check(info.data?.profile === "local" && limits.maxPageSize === 1000 && info.data.payment.receiver !== "", info);
  const ready = await client.GET("/readyz", { parseAs: "text" });
  check(ready.data === "ready\n", ready);
}

for (const run of [blobs, uploads, sessions, channels, service]) {
  try {
    await run();
    console.log(JSON.stringify({ case: run.name }));
  } catch (error) {
    console.log(JSON.stringify({ case: run.name, error: String(error) }));
  }
}
