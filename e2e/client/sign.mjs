// Prints one line for each requested payment: the sender's address and the micropayment in base64.
//
//   node sign.mjs '{"scheme", "secret", "terms": {"receiver", "asset", "module"},
//     "payments": [{"paymentChannelId", "sequenceNumber", "amount"}...]}'
import { base64, openPayer } from "./micropayments.mjs";

const { scheme, secret, terms, payments } = JSON.parse(process.argv[2]);
const payer = await openPayer(scheme, secret, terms);
for (const { paymentChannelId, sequenceNumber, amount } of payments) {
  const micropayment = await payer.pay(paymentChannelId, sequenceNumber, amount);
  console.log(JSON.stringify({ sender: payer.address, micropayment: base64(micropayment) }));
}
payer.close();
