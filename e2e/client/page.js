// A web page runs this script. It uses the public client's browser build. The bundle defines
// window.transfer(baseUrl).
import { Network } from "@aptos-labs/ts-sdk";
import { ShelbyRPCClient } from "sdk-0.1.0/browser";

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));

window.transfer = async (baseUrl) => {
  const rpc = new ShelbyRPCClient({
    network: Network.LOCAL,
    apiKey: "an-ignored-key",
    rpc: { baseUrl },
    indexer: { baseUrl: "http://localhost:9/unused" },
  });
  const account = "0x1";
  const blobName = "from a page/日本語.bin";
  const data = new Uint8Array(6 * 1024 * 1024 + 7);
  for (let i = 0; i < data.length; i++) data[i] = (i * 31 + (i >> 8)) & 255;

  await rpc.putBlob({ account, blobName, blobData: data });
  const blob = await rpc.getBlob({ account, blobName });
  const whole = await new Response(blob.readable).arrayBuffer();
  const piece = await rpc.getBlob({ account, blobName, range: { start: 10, end: 19 } });
  const part = await new Response(piece.readable).arrayBuffer();

  const url = `${baseUrl}/v1/blobs/${account}/`;
  const missing = await fetch(`${url}absent`);
  const ranged = await fetch(url + blobName.split("/").map(encodeURIComponent).join("/"), { headers: { Range: "bytes=0-0" } });
  await ranged.arrayBuffer();
  const removed = await fetch(url + blobName.split("/").map(encodeURIComponent).join("/"), { method: "DELETE" });
  return {
    sent: await sha256(data),
    received: await sha256(whole),
    partSent: await sha256(data.slice(10, 20)),
    partReceived: await sha256(part),
    missingStatus: missing.status,
    missingBody: await missing.json(),
    missingRequestId: missing.headers.get("X-Request-Id"),
    etag: ranged.headers.get("ETag"),
    contentRange: ranged.headers.get("Content-Range"),
    removedStatus: removed.status,
  };
};
