// Sends each operation in the model of Amazon's SDK, by the header and by a presigned URL with every
// field x-amz-... in its query. An operation is served, or refused before it changes anything, and
// the two forms have the same outcome with each field.
import assert from "node:assert/strict";

import * as sdk from "@aws-sdk/client-s3";
import { NormalizedSchema } from "@smithy/core/schema";
import { SignatureV4 } from "@smithy/signature-v4";

const common = { endpoint: process.env.S3, region: "us-east-1", forcePathStyle: true, disableHostPrefix: true, disableS3ExpressSessionAuth: true, maxAttempts: 1 };
const byHeader = new sdk.S3Client(common);
const presigner = new SignatureV4({ service: "s3", region: "us-east-1", credentials: byHeader.config.credentials, sha256: byHeader.config.sha256, uriEscapePath: false });
const presigned = new sdk.S3Client({
  ...common,
  signer: { sign: (request) => presigner.presign({ ...request, headers: { ...request.headers, "x-amz-content-sha256": "UNSIGNED-PAYLOAD" } }, { expiresIn: 60 }) },
});

const Bucket = "team";
const run = (client, name, input) => client.send(new sdk[`${name}Command`](input));
const send = (name, input) => run(byHeader, name, input);

// Operations that change the state; no other may.
const changing = new Set(["AbortMultipartUpload", "CompleteMultipartUpload", "CopyObject", "CreateMultipartUpload", "DeleteObject", "DeleteObjects", "PutObject",
  "PutObjectTagging", "DeleteObjectTagging", "UploadPart", "UploadPartCopy"]);

let stored; // the state since the last reset, with the inputs that it gave

// reset stores the objects that the requests name, and returns inputs for them. It does so after a
// change only.
async function reset() {
  if (stored) return stored.inputs;
  const open = await send("ListMultipartUploads", { Bucket });
  await Promise.all((open.Uploads ?? []).map(({ Key, UploadId }) => send("AbortMultipartUpload", { Bucket, Key, UploadId })));
  await Promise.all(["key", "other", "source"].map((Key) => send("PutObject", { Bucket, Key, Body: `the ${Key}`, Metadata: { key: Key } })));
  const { UploadId } = await send("CreateMultipartUpload", { Bucket, Key: "key" });
  const { ETag } = await send("UploadPart", { Bucket, Key: "key", UploadId, PartNumber: 1, Body: "a part" });
  const inputs = {
    Bucket, Key: "key", UploadId, PartNumber: 1, CopySource: "team/source", Delete: { Objects: [{ Key: "other" }] }, ObjectAttributes: ["ETag"],
    MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] }, Body: "replaced", ACL: "private", Id: "x", RequestRoute: "x", RequestToken: "x",
  };
  stored = { inputs, state: await state(inputs) };
  return inputs;
}

// looked returns the objects, the open uploads, a part's list and a key's head.
const looked = ({ UploadId }) => Promise.all([
  send("ListObjectsV2", { Bucket }), send("ListMultipartUploads", { Bucket }),
  send("ListParts", { Bucket, Key: "key", UploadId }).catch((e) => e.name), send("HeadObject", { Bucket, Key: "key" }).catch((e) => e.name),
]);

// state returns everything stored, without times of change.
async function state(inputs) {
  const [{ Contents }, { Uploads }, parts] = await looked(inputs);
  return JSON.stringify([Contents, Uploads, parts.Parts ?? parts]);
}

// effect returns the state after a change, without times and ids.
async function effect(inputs) {
  const [{ Contents }, { Uploads }, { Parts }, { Metadata, ContentType }] = await looked(inputs);
  return JSON.stringify([Contents?.map((o) => [o.Key, o.ETag]), Uploads?.length, Parts?.map((p) => p.ETag), Metadata, ContentType]);
}

// filled returns a value for a member.
function filled(schema) {
  if (schema.isStructSchema()) return Object.fromEntries([...schema.structIterator()].map(([name, member]) => [name, filled(member)]));
  if (schema.isListSchema()) return [filled(schema.getValueSchema())];
  if (schema.isMapSchema()) return { name: "x" };
  if (schema.isTimestampSchema()) return new Date(0);
  if (schema.isBooleanSchema()) return true;
  if (schema.isNumericSchema()) return 1;
  return schema.isBlobSchema() ? Buffer.from("x") : "x";
}

// outcome sends a request and returns its status and S3's code.
async function outcome(client, name, input) {
  try {
    const { $metadata } = await run(client, name, input);
    return `${$metadata.httpStatusCode}`;
  } catch (e) {
    assert.ok(e.$metadata?.httpStatusCode, `${name}: ${e.stack}`);
    return `${e.$metadata.httpStatusCode} ${e.name}`;
  }
}

await send("CreateBucket", { Bucket });
const served = [], refused = [];
for (const name of Object.keys(sdk).filter((key) => /^[A-Z]\w*Command$/.test(key)).map((key) => key.slice(0, -"Command".length))) {
  const schema = NormalizedSchema.of(sdk[`${name}$`][4]);
  const members = schema.isStructSchema() ? Object.fromEntries(schema.structIterator()) : {};
  const inputs = async (more) => {
    const known = await reset();
    return Object.fromEntries(Object.entries(members)
      .filter(([member, of]) => member in known || of.getMergedTraits().httpPayload || member === more)
      .map(([member, of]) => [member, member in known && member !== more ? known[member] : filled(of)]));
  };
  const both = async (more) => {
    const outcomes = [];
    for (const client of [byHeader, presigned]) {
      const input = await inputs(more), got = await outcome(client, name, input);
      if (!changing.has(name) || /^[345]/.test(got)) {
        assert.equal(await state(stored.inputs), stored.state, `${name} with ${more} changes something, and its response is ${got}`);
        outcomes.push(got);
      } else {
        outcomes.push(`${got} ${await effect(stored.inputs)}`);
        stored = undefined;
      }
    }
    assert.equal(outcomes[0], outcomes[1], `${name} with ${more}, by the header and presigned`);
    return outcomes[0];
  };
  const got = await both();
  if (got.startsWith("501")) {
    refused.push(name);
    continue;
  }
  served.push(name);
  assert.match(got, /^(2\d\d|40[049])/, `${name}: ${got}`);
  for (const [member, of] of Object.entries(members)) {
    const field = of.getMergedTraits().httpHeader ?? of.getMergedTraits().httpPrefixHeaders ?? "";
    if (field.startsWith("x-amz-") && !/^x-amz-(sdk-checksum-algorithm|checksum-(crc|sha|md5|xxh).*)$/.test(field)) await both(member);
  }
}
await reset();
assert.ok(served.length >= 27, `only ${served} are served`);
console.log(`${served.length} operations are served, ${refused.length} are refused`);
assert.equal((await (await send("GetObject", { Bucket, Key: "source" })).Body.transformToString()), "the source");
console.log("ok");
