// The contract's functions that the public client calls, with their parameters by name and type.
// The names and types come from the calls in ShelbyMicropaymentChannelClient in
// @shelby-protocol/sdk 0.1.0: the package contains neither the contract nor its ABI. An account
// calls initialize_payment_channels once before it opens channels.
export const functions = {
  receiver_withdraw: { amount: "u64", channel: "u64", sequence: "u64", asset: "address" },
  initialize_payment_channels: {},
  create_channel: { receiver: "address", expires: "u64", amount: "u64", asset: "address" },
  extend_expiration_time: { receiver: "address", asset: "address", expires: "u64" },
  increase_deposit_amount: { receiver: "address", asset: "address", amount: "u64" },
  sender_withdraw: { receiver: "address", asset: "address" },
};

// signersOf returns the number of accounts that sign a call.
export const signersOf = (name) => (name === "receiver_withdraw" ? 2 : 1);

// abi returns the contract's ABI as a fullnode does.
export function abi(address) {
  const entry = (name) => ({
    name,
    visibility: "public",
    is_entry: true,
    is_view: false,
    generic_type_params: [],
    params: [...Array(signersOf(name)).fill("&signer"), ...Object.values(functions[name])],
    return: [],
  });
  const channels = (name, params) => ({ name, visibility: "public", is_entry: false, is_view: true, generic_type_params: [], params, return: ["vector<u8>"] });
  return {
    address,
    name: "micropayments",
    friends: [],
    structs: [],
    exposed_functions: [
      ...Object.keys(functions).map(entry),
      channels("get_all_channels_from_sender", ["address"]),
      channels("get_all_channels_from_sender_to_receiver", ["address", "address"]),
    ],
  };
}
