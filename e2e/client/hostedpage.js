// A foreign origin's page runs this script. It uses a hosted service with paid reads and an API
// key. The bundle defines window.visit(baseUrl, apiKey).
import { Network } from "@aptos-labs/ts-sdk";
import { ShelbyRPCClient } from "sdk-0.1.0/browser";

const equal = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

// seen returns everything that the browser lets the page read in a response: an error's JSON, and
// for other responses the body's length.
async function seen(response) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const shown = { status: response.status, headers: Object.fromEntries(response.headers), size: bytes.length };
  return response.ok ? shown : { ...shown, body: JSON.parse(new TextDecoder().decode(bytes)) };
}

window.visit = async (baseUrl, apiKey) => {
  const rpc = new ShelbyRPCClient({
    network: Network.LOCAL,
    apiKey,
    rpc: { baseUrl },
    indexer: { baseUrl: "http://localhost:9/unused" },
  });
  const account = "0x1";
  const blobName = "from a page/日本語.bin";
  const data = new Uint8Array(6 * 1024 * 1024 + 7);
  for (let i = 0; i < data.length; i++) data[i] = (i * 31 + (i >> 8)) & 255;

  await rpc.putBlob({ account, blobName, blobData: data });
  const read = async (range) => {
    const blob = await rpc.getBlob({ account, blobName, range });
    return new Uint8Array(await new Response(blob.readable).arrayBuffer());
  };
  const whole = await read();
  const piece = await read({ start: 5 * 1024 * 1024 - 3, end: 5 * 1024 * 1024 + 3 });

  const account1 = `${baseUrl}/v1/blobs/${account}/`;
  const url = account1 + blobName.split("/").map(encodeURIComponent).join("/");
  const authorized = { Authorization: `Bearer ${apiKey}` };
  const ask = async (target, init) => seen(await fetch(target, init));
  return {
    whole: equal(whole, data),
    piece: equal(piece, data.slice(5 * 1024 * 1024 - 3, 5 * 1024 * 1024 + 4)),
    ranged: await ask(url, { headers: { ...authorized, Range: "bytes=5-9" } }),
    head: await ask(url, { method: "HEAD", headers: { "X-Api-Key": apiKey } }),
    missing: await ask(account1 + "absent", { headers: authorized }),
    unknownKey: await ask(url, { headers: { Authorization: "Bearer nonsense" } }),
    noKey: await ask(url, { method: "PUT", body: "x" }),
    unpaid: await ask(url, { headers: { Range: "bytes=5-9" } }),
    stored: await ask(account1 + "described", {
      method: "PUT", body: "x",
      headers: { ...authorized, "Blob-Meta-Color": "red", "Content-Disposition": "attachment", "Cache-Control": "max-age=60" },
    }),
    // With a condition, the browser adds a Cache-Control of its own.
    created: await ask(account1 + "created", { method: "PUT", body: "x", headers: { ...authorized, "If-None-Match": "*" } }),
    listed: (await (await fetch(`${baseUrl}/v1/blobs/${account}?prefix=created&include=metadata`, { headers: authorized })).json()).blobs,
    described: await ask(account1 + "described", { method: "HEAD" }),
    // A page cannot make the browser send the user's cookies for the service.
    withCredentials: await fetch(url, { headers: authorized, credentials: "include" }).then(() => "read", (error) => error.name),
    removed: await ask(url, { method: "DELETE", headers: { ...authorized, "If-Match": "*" } }),
  };
};
