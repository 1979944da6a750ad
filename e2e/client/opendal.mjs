// Uses a local instance by OpenDAL's library, as its binding for Node.js has it.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";

const { Operator } = createRequire(import.meta.url)("@opendal/lib-linux-x64-gnu");
const op = new Operator("s3", {
  endpoint: process.env.S3, bucket: "team", region: "us-east-1", access_key_id: "any", secret_access_key: "any", default_storage_class: "STANDARD_IA",
});
const names = async (path, recursive) => (await op.list(path, { recursive })).map((e) => e.path()).sort();

await op.createDir("dir/empty/");
assert.ok((await op.stat("dir/empty/")).isDirectory());
await op.check();
await op.write("dir/ä b+%", Buffer.from("0123456789"), { contentType: "text/plain", cacheControl: "max-age=1" });
const is = await op.stat("dir/ä b+%");
assert.deepEqual([is.contentLength, is.contentType], [10n, "text/plain"]);
const big = randomBytes((12 << 20) + 1);
const writer = await op.writer("big", { chunk: 5n << 20n });
for (const at of [0, 7 << 20]) {
  await writer.write(big.subarray(at, at + (7 << 20)));
}
await writer.close();
await op.copy("big", "dir/copy");
assert.ok((await op.read("dir/copy")).equals(big));
assert.deepEqual(await names("dir/", false), ["dir/copy", "dir/empty/", "dir/ä b+%"]);
assert.deepEqual(await names("", true), ["big", "dir/copy", "dir/empty/", "dir/ä b+%"]);
const { method, url, headers } = await op.presignRead("dir/ä b+%", 60);
assert.equal(await (await fetch(url, { method, headers })).text(), "0123456789");
await op.removeAll("dir/");
assert.deepEqual(await names("", true), ["big"]);
console.log("ok");
