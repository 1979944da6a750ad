import assert from "node:assert";
import { after, before, test } from "node:test";
import { SluiceContainer } from "./sluice.mjs";

let sluice;
before(async () => {
  sluice = await new SluiceContainer(process.env.IMAGE ?? "sluice").withFlags("--fault", "GET blob first 1: status 503").start();
});
after(() => sluice?.stop());

// The first read fails, so that the program under test must repeat it.
test("stores a blob by HTTP, and reads it by S3", async () => {
  const url = `${sluice.url()}/v1/blobs/team/hello.txt`;
  assert.equal((await fetch(url, { method: "PUT", body: "hello" })).status, 204);
  assert.equal((await fetch(url)).status, 503);
  assert.equal(await (await fetch(url)).text(), "hello");
  assert.equal(await (await fetch(`${sluice.s3url()}/team/hello.txt`)).text(), "hello");
});
