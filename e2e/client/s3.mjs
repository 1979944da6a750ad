// Uses a local instance by Amazon's SDK of today, which reads its address from the environment, and sends a checksum with every body: in the
// trailer of a body in chunks, unless the body is in memory.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";

import { CopyObjectCommand, DeleteObjectsCommand, GetObjectCommand, HeadObjectCommand, paginateListObjectsV2, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";

const options = { forcePathStyle: true, responseChecksumValidation: "WHEN_SUPPORTED" };
const client = new S3Client({ ...options, requestStreamBufferSize: 64 << 10 });
const Bucket = "team";
const bytes = async (Key, more) => Buffer.from(await (await client.send(new GetObjectCommand({ Bucket, Key, ...more }))).Body.transformToByteArray());

const put = await client.send(new PutObjectCommand({ Bucket, Key: "checked", Body: "checked by default", Metadata: { color: "blue" } }));
assert.ok(put.ChecksumCRC32);
assert.equal((await bytes("checked")).toString(), "checked by default");
assert.equal((await bytes("checked", { Range: "bytes=8-" })).toString(), "by default");
// Without that buffer each piece is a chunk, and Amazon refuses short ones.
await assert.rejects(new S3Client(options).send(new PutObjectCommand({ Bucket, Key: "wrong", Body: Readable.from(["str", "eamed"]), ContentLength: 8 })), {
  name: "InvalidChunkSizeError",
});
for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
  if (ChecksumAlgorithm !== "CRC64NVME") {
    await client.send(new PutObjectCommand({ Bucket, Key: "streamed", Body: Readable.from(["str", "eamed"]), ContentLength: 8, ChecksumAlgorithm }));
  }
  assert.equal((await bytes(ChecksumAlgorithm === "CRC64NVME" ? "checked" : "streamed")).length > 0, true);
}
await assert.rejects(client.send(new PutObjectCommand({ Bucket, Key: "wrong", Body: "x", ChecksumSHA256: "A".repeat(43) + "=" })), { name: "BadDigest" });
await assert.rejects(client.send(new HeadObjectCommand({ Bucket, Key: "wrong" })), { name: "NotFound" });
await assert.rejects(client.send(new PutObjectCommand({ Bucket, Key: "checked", Body: "x", IfNoneMatch: "*" })), { name: "PreconditionFailed" });

const big = randomBytes((12 << 20) + 1);
await new Upload({ client, params: { Bucket, Key: "big", Body: Readable.from([big.subarray(0, 7), big.subarray(7)]) }, partSize: 5 << 20 }).done();
assert.ok((await bytes("big")).equals(big));
await client.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: "/team/checked" }));
assert.deepEqual((await client.send(new HeadObjectCommand({ Bucket, Key: "copy" }))).Metadata, { color: "blue" });

const keys = [];
for await (const page of paginateListObjectsV2({ client, pageSize: 2 }, { Bucket })) {
  keys.push(...(page.Contents ?? []).map((o) => o.Key));
}
assert.deepEqual(keys, ["big", "checked", "copy", "streamed"]);
const deleted = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: ["big", "copy", "streamed"].map((Key) => ({ Key })) } }));
assert.equal(deleted.Deleted.length, 3);
console.log("ok");
