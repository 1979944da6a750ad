// abi returns the ABI of the contract as a fullnode does, with the functions that the public client calls.
export function abi(address) {
  const channels = (name, params) => ({ name, visibility: "public", is_entry: false, is_view: true, generic_type_params: [], params, return: ["vector<u8>"] });
  return {
    address,
    name: "micropayments",
    friends: [],
    structs: [],
    exposed_functions: [
      {
        name: "receiver_withdraw",
        visibility: "public",
        is_entry: true,
        is_view: false,
        generic_type_params: [],
        params: ["&signer", "&signer", "u64", "u64", "u64", "address"],
        return: [],
      },
      channels("get_all_channels_from_sender", ["address"]),
      channels("get_all_channels_from_sender_to_receiver", ["address", "address"]),
    ],
  };
}
