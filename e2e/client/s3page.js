// A page of another origin runs this script. It uses S3's interface by Amazon's SDK, with the
// headers that tracing adds, and the native interface with the same ones.
import { CompleteMultipartUploadCommand, CreateMultipartUploadCommand, DeleteObjectsCommand, GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client, UploadPartCommand } from "@aws-sdk/client-s3";

// Headers that tracing, error reporting and frameworks add to a page's requests.
const traced = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "a=b", baggage: "a=b",
  "sentry-trace": "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1", "x-requested-with": "XMLHttpRequest", "X-Datadog-Trace-Id": "1",
};

window.visit = async (endpoint, accessKeyId, secretAccessKey, native) => {
  const client = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { accessKeyId, secretAccessKey }, maxAttempts: 1 });
  client.middlewareStack.add((next) => (args) => {
    Object.assign(args.request.headers, traced);
    return next(args);
  }, { step: "build" });
  const Bucket = "team", text = async (Key) => (await client.send(new GetObjectCommand({ Bucket, Key, ChecksumMode: "ENABLED" }))).Body.transformToString();
  const put = await client.send(new PutObjectCommand({ Bucket, Key: "a b/ü.txt", Body: "from a page", ContentType: "text/plain", Metadata: { color: "blue" } }));
  const head = await client.send(new HeadObjectCommand({ Bucket, Key: "a b/ü.txt" }));
  const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: "parts" }));
  const { ETag } = await client.send(new UploadPartCommand({ Bucket, Key: "parts", UploadId, PartNumber: 1, Body: new TextEncoder().encode("a part") }));
  await client.send(new CompleteMultipartUploadCommand({ Bucket, Key: "parts", UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } }));
  const missing = await client.send(new GetObjectCommand({ Bucket, Key: "missing" })).then(() => "read", (error) => error.name);
  const listed = (await client.send(new ListObjectsV2Command({ Bucket }))).Contents.map((o) => o.Key);
  const read = [await text("a b/ü.txt"), await text("parts")];
  const response = await fetch(`${native}/v1/blobs/team/parts`, { headers: traced });
  const deleted = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: listed.map((Key) => ({ Key })) } }));
  return { tags: put.ETag === head.ETag, color: head.Metadata.color, read, missing, listed, native: await response.text(), deleted: deleted.Deleted.length };
};
