package main

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// wrongCall is a wrong command line, variable or configuration file.
type wrongCall struct {
	line      string            // arguments; $FILE is the configuration file, and a quoted '' is empty
	variables map[string]string // environment variables
	file      string            // the text of $FILE
	code      int               // exit code, exitUsage if 0
	want      string            // the message, without "sluice: "
}

type variables = map[string]string

var wrongCalls = []wrongCall{
	// Commands.
	{line: "", want: `a command is missing: sluice help lists the commands`},
	{line: "sreve", want: `there is no command "sreve": did you mean serve?`},
	{line: "delete team/a", want: `there is no command "delete": did you mean rm?`},
	{line: "head team/a", want: `there is no command "head": did you mean stat?`},
	{line: "copy a :team/", want: `there is no command "copy": did you mean cp?`},
	{line: "move team/a team/b", want: `there is no command "move": did you mean mv?`},
	{line: "remove team/a", want: `there is no command "remove": did you mean rm?`},
	{line: "replicate a :team", want: `there is no command "replicate": did you mean mirror?`},
	{line: "clone --from a --to b", want: `there is no command "clone", and no need for one: sluice backup PLACE and then sluice restore PLACE --to DIR copy an instance`},
	{line: "key delete", want: `there is no command "key delete": sluice help key lists the commands`},
	{line: "nonsense", want: `there is no command "nonsense": sluice help lists the commands`},
	{line: "key crate", want: `there is no command "key crate": did you mean key create?`},
	{line: "context nonsense", want: `there is no command "context nonsense": sluice help context lists the commands`},
	{line: "context", want: `context requires a command: add, use, ls, rm`},
	{line: "help nonsense", want: `there is no command "nonsense": sluice help lists the commands`},
	{line: "help key nonsense", want: `there is no command "key nonsense": sluice help key lists the commands`},
	{line: "serve extra", want: `serve takes no arguments, but got "extra"`},
	{line: "version x", want: `version takes no arguments, but got "x"`},
	{line: "key show", want: `key show requires the argument ID: sluice help key show shows the usage`},
	{line: "key show a b", want: `key show has too many arguments: the first superfluous one is "b"; sluice help key show shows the usage`},
	{line: "context add", want: `context add requires the argument NAME: sluice help context add shows the usage`},
	{line: "context add prod", want: `context add requires the argument URL: sluice help context add shows the usage`},

	// Flags.
	{line: "--data x serve", want: `sluice has no flag --data: the flags of a command follow its name, and sluice help lists the commands`},
	{line: "serve --adr x", want: `serve has no flag --adr: did you mean --addr?`},
	{line: "serve --nonsense", want: `serve has no flag --nonsense: sluice help serve lists the flags`},
	{line: "serve -z", want: `serve has no flag -z: sluice help serve lists the flags`},
	{line: "key show --jsn a", want: `key show has no flag --jsn: did you mean --json?`},
	{line: "serve --data", want: `--data requires a value: want --data VALUE, or --data=VALUE if the value begins with a dash`},
	{line: "serve --meta", want: `--meta requires a value: want --meta DSN, or --meta=DSN if the value begins with a dash`},
	{line: "serve --data --addr x", want: `--data requires a value: want --data VALUE, or --data=VALUE if the value begins with a dash`},
	{line: "serve --trusted-proxies", want: `--trusted-proxies requires a value: want --trusted-proxies CIDR, or --trusted-proxies=CIDR if the value begins with a dash`},
	{line: "serve --chunkset-price x", want: `--chunkset-price: want a whole number, not "x"`},
	{line: "serve --ephemeral --data x", want: `--ephemeral: keeps nothing, so it excludes --data`},
	{line: "serve --ephemeral --meta postgres://h/d", want: `--ephemeral: keeps nothing, so it excludes --meta and --bytes`},
	{line: "serve --ephemeral --bytes s3://bucket", want: `--ephemeral: keeps nothing, so it excludes --meta and --bytes`},
	{line: "serve --fault explode", want: `--fault: there is no fault "explode": want delay DURATION, status CODE, cut BYTES, drop-reply, slow BYTES, expired-session or full-disk`},
	{line: "serve --fault drop-reply --fault=GETblob:drop-reply", want: `--fault: want [METHOD] [OPERATION] [SHARE% | first N] before the colon, not "GETblob": methods are GET, HEAD, PUT, POST and DELETE, and operations accounts, blob, changes, channel, complete, info, list, part, session, upload and use`},
	{line: "reset x", want: `there is no command "reset", and no need for one: stop the server and remove its data folder`},
	{line: "audit", want: `there is no command "audit": did you mean check --books?`},
	{line: "serve --max-requests many", want: `--max-requests: want a whole number, not "many"`},
	{line: "serve --max-requests 0", want: `--max-requests 0: must be at least 1`},
	{line: "serve --profile staging", want: `--profile staging: want one of local, hosted`},
	{line: "serve --log-level loud", want: `--log-level: want debug, info, warn or error, not "loud"`},
	{line: "serve --garbage-grace 1", want: `--garbage-grace: want a duration, such as 30s, 10m, 12h or 30d, not "1"`},
	{line: "serve --garbage-grace 1m", want: `--garbage-grace 1m0s: must be at least 10m0s, or 0s for a single node`},
	{line: "serve --open-to-network=maybe", want: `--open-to-network: want true or false, not "maybe"`},
	{line: "serve --cache-size 1QB", want: `--cache-size: want a size of at least 1 byte, such as 512MiB or 10G, or unlimited, not "1QB"`},
	{line: "serve --staging-size 1G --cache /x", want: `--cache: requires an object store in --bytes; files in the data folder need no cache`},
	{line: "serve --max-connections-per-address none", want: `--max-connections-per-address: want a number of at least 1, or unlimited, not "none"`},
	{line: "serve --addr 9090", want: `--addr 9090: want HOST:PORT, such as localhost:9090`},
	{line: "serve --addr localhost:http", want: `--addr localhost:http: the port must be a number from 0 to 65535, not "http"`},
	{line: "serve --addr 0.0.0.0:9090", want: `--addr 0.0.0.0:9090: a local instance requires no keys, so it listens on loopback addresses only, unless --open-to-network is set`},
	{line: "serve --s3-addr 9000", want: `--s3-addr 9000: want HOST:PORT, such as localhost:9090`},
	{line: "serve --s3-addr 0.0.0.0:9000", want: `--s3-addr 0.0.0.0:9000: a local instance requires no keys, so it listens on loopback addresses only, unless --open-to-network is set`},
	{line: "serve --s3-domain x/y", want: `--s3-domain x/y: want a host name in lower case, such as s3.example.org`},
	{line: "serve --s3-unsigned-payload", want: `--s3-unsigned-payload: a local instance accepts any S3 credentials`},
	{line: "serve --meta mysql://u:canary@h", want: `--meta: want postgres://USER@HOST/NAME, or nothing for a database in the data folder`},
	{line: "serve --bytes /folder", want: `--bytes: s3: the address must have the form s3://BUCKET/PREFIX?endpoint=https://HOST:PORT`},
	{line: "serve --tls-cert x", want: `--tls-cert and --tls-key: either requires the other`},
	{line: "serve --chain-url http://node.example/v1 --receiver-key-file x", want: `--chain-url: URL 1 of 1: want https; http is accepted for loopback addresses only`},
	{line: "serve --chain-url https://u:canary@node.example/v1 --receiver-key-file x", want: `--chain-url: URL 1 of 1: want https://host/path, without user, query and fragment`},
	{line: "serve --chain-url https://a.example/v1,node.example --receiver-key-file x", want: `--chain-url: URL 2 of 2: want https://host/path, without user, query and fragment`},
	{line: "serve --chain-url https://node.example/v1", want: `--chain-url: requires --receiver-key-file, the key of the account that is paid`},
	{line: "serve --chain-url http://127.0.0.1:1 --receiver-key-file x --coin-price=-1", want: `--coin-price -1: must not be negative`},
	{line: "serve --settle-at 8", want: `--settle-at was removed: --unsettled-limit is what a channel may owe: it begins with a hundredth of that, and is collected at half of it, or within 24 hours`},
	{line: "serve --config $FILE", file: "addr: localhost:0\npurge-every: 5m\nkey-stored-bytes: 1TiB\n", want: `$FILE:2: purge-every was removed: what has expired is removed every minute; $FILE:3: key-stored-bytes was removed: --key-limits stored-bytes=SIZE sets it`},
	{line: "serve", variables: variables{"SLUICE_CHAIN_ID": "5"}, want: `SLUICE_CHAIN_ID was removed: --chain id=N,asset=ADDRESS,module=ADDRESS names a private chain`},
	{line: "serve --chain testnet", want: `--chain: testnet: want localnet, or a private chain's id=N,asset=ADDRESS,module=ADDRESS`},
	{line: "serve --config $FILE", file: "chain:\n  id: 256\n", want: `$FILE:1: --chain: id=256: want localnet, or a private chain's id=N,asset=ADDRESS,module=ADDRESS`},
	{line: "serve --key-limits open-uploads=7", want: `--key-limits: requires the hosted profile; a local instance has no keys to limit`},
	{line: "serve --address-limits channels=7", want: `--address-limits: channels: callers without a key have no quotas: want requests-per-second, bytes-in-per-second, bytes-out-per-second, concurrent-requests`},
	{line: "serve --address-limits bytes-in-per-second=7x", want: `--address-limits: bytes-in-per-second: want a size of at least 1 byte, such as 512MiB or 10G, or unlimited, not "7x"`},
	{line: "serve --address-limits requests", want: `--address-limits: want LIMIT=N,..., such as requests-per-second=100, not "requests"`},
	{line: "serve --drain-wait 5x", want: `--drain-wait: want a duration, such as 30s, 10m, 12h or 30d, not "5x"`},
	{line: "serve --drain-wait ''", want: `--drain-wait: want a duration, such as 30s, 10m, 12h or 30d, not ""`},
	{line: "serve --max-requests -1", want: `--max-requests requires a value: want --max-requests VALUE, or --max-requests=VALUE if the value begins with a dash`},
	{line: "serve --coin-price x", want: `--coin-price: want a whole number, not "x"`},
	{line: "serve", variables: variables{"SLUICE_CHUNKSET_PRICE": "x"}, want: `SLUICE_CHUNKSET_PRICE: --chunkset-price: want a whole number, not "x"`},
	{line: "serve --config $FILE", file: "\nchunkset-price: x\n", want: `$FILE:2: --chunkset-price: want a whole number, not "x"`},
	{line: "serve --config $FILE", file: "drain-wait: soon\n", want: `$FILE:1: --drain-wait: want a duration, such as 30s, 10m, 12h or 30d, not "soon"`},
	{line: "serve", variables: variables{"SLUICE_COIN_PRICE": "8"}, want: `SLUICE_COIN_PRICE: --coin-price: requires --chain-url; without a chain nothing is collected`},
	{line: "serve --config $FILE", file: "addr: localhost:0\ncoin-price: 30\n", want: `$FILE:2: --coin-price: requires --chain-url; without a chain nothing is collected`},
	{line: "serve --coin-price 1", want: `--coin-price: requires --chain-url; without a chain nothing is collected`},
	{line: "serve --resume-settling", want: `--resume-settling was removed: sluice resume settling resumes it`},
	{line: "serve --chain-url http://127.0.0.1:1 --receiver-key-file x --unsettled-limit 0", want: `--unsettled-limit 0: must be at least 1`},
	{line: "serve --receiver-key-file x", want: `--receiver-key-file and --chain-api-key-file: require --chain-url; without a chain nothing is signed`},
	{line: "serve --chain-api-key-file x", want: `--receiver-key-file and --chain-api-key-file: require --chain-url; without a chain nothing is signed`},
	{line: "serve --chain-url http://127.0.0.1:1 --receiver-key-file /nonexistent/key", code: cli.ExitFailed, want: `--receiver-key-file: open /nonexistent/key: no such file or directory`},
	{line: "serve --chain-url http://127.0.0.1:1 --receiver-key-file $FILE", file: "canary", code: cli.ExitFailed, want: `--receiver-key-file: the file $FILE: want a private key of 64 hexadecimal digits, with ed25519-priv-0x or secp256k1-priv-0x before them`},
	{line: "check --books --repair", want: `--books and --recorded each exclude the other, --read-bytes and --repair`},
	{line: "key create --scopes", want: `--scopes requires a value: want --scopes SCOPE, or --scopes=SCOPE if the value begins with a dash`},
	{line: "key create --scopes read", want: `--accounts or --all-accounts: exactly one of the two is required`},
	{line: "key create --scopes read --all-accounts --expires 7", want: `--expires: 7 has no unit: want a duration, such as 7d for days, or Unix seconds`},
	{line: "key create --scopes read --all-accounts --expires tomorrow", want: `--expires: want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not "tomorrow"`},
	{line: "key list --data /nonexistent/data", code: cli.ExitNotFound, want: `there is no data in the folder /nonexistent/data: name another with --data DIR`},

	{line: "key update ID", want: `nothing to change: set --scopes, --accounts, --all-accounts, --prefix, --grant, --label, --expires, --new-secret, --s3 or --no-s3`},
	{line: "key update ID --all-accounts --accounts a", want: `--accounts or --all-accounts: exactly one of the two is required`},
	{line: "key update ID --expires soon", want: `--expires: want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not "soon"`},
	{line: "group set team", want: `nothing to change: set a limit, such as --stored-bytes 10G, or --default`},
	{line: "group set team --channels 0", want: `--channels: want a number of at least 1, or unlimited, not "0"`},
	{line: "group set team --channels 1 --default channels", want: `--channels and --default channels: set one of them`},
	{line: "group set team --default storage", want: `--default storage: want one of requests-per-second, bytes-in-per-second, bytes-out-per-second, concurrent-requests, stored-bytes, occupied-bytes, stored-objects, open-uploads, channels`},
	{line: "group show", want: `group show requires the argument GROUP: sluice help group show shows the usage`},
	{line: "config check --reads sometimes", want: `--reads sometimes: want public or paid`},
	{line: "info --url localhost:9090", want: `--url: want the URL of a server, such as http://localhost:9090 or https://blobs.example.org/sluice, not "localhost:9090"`},
	{line: "info --url http://h --context prod", want: `--url and --context both name a server: use one of them`},
	{line: "info --context prod", want: `--context: there is no such context: prod (there are none yet: sluice context add NAME URL)`},
	{line: "conformance http://h --url http://h", want: `http://h and --url both name a server: state one of them`},
	{line: "conformance --run nothing-like-this", want: `--run nothing-like-this: no case of the level client has such a name`},
	{line: "conformance --run (", want: "--run: error parsing regexp: missing closing ): `(`"},
	{line: "conformance --jobs 0", want: `--jobs 0: must be from 1 to 100`},
	{line: "health --timeout 0x", want: `--timeout: want a duration, such as 30s, 10m, 12h or 30d, not "0x"`},
	{line: "health", variables: variables{"SLUICE_URL": "http://h", "SLUICE_CONTEXT": "prod"}, want: `SLUICE_URL and SLUICE_CONTEXT both name a server: unset one of them, or use --url or --context`},
	{line: "info --key-file $FILE", file: " ", want: `--key-file: the file $FILE has no API key`},
	{line: "account show $FILE", file: "canary", code: cli.ExitFailed, want: `the file $FILE: want an Ed25519 private key: 64 hexadecimal digits, with or without ed25519-priv-0x before them`},
	{line: "account show /nonexistent/key", code: cli.ExitNotFound, want: `cannot read the account in /nonexistent/key: file does not exist: sluice account new makes one`},
	{line: "account new $FILE", code: cli.ExitFailed, want: `cannot write the key to $FILE: file already exists and may hold the only copy of a key: name another file, or move it away`},
	{line: "completion tcsh", want: `there is no command "completion tcsh": sluice help completion lists the commands`},

	// Contexts.
	{line: "context add p http://h", want: `"p" is not a name of a context: want 2 to 64 of A-Z, a-z, 0-9, ".", "_" and "-", of which the first is a letter or a digit`},
	{line: "context add prod h", want: `want the URL of a server, such as http://localhost:9090 or https://blobs.example.org/sluice, not "h"`},
	{line: "context add prod http://u:canary@h", want: `the URL of a server has no user or password: put the API key into SLUICE_KEY, a file or a context`},
	{line: "context use prod", code: cli.ExitNotFound, want: `there is no such context: prod (there are none yet: sluice context add NAME URL)`},

	// Payments.
	{line: "session use", want: `session use requires the argument ID: sluice help session use shows the usage`},
	{line: "channel deposit C", want: `channel deposit requires the argument AMOUNT: sluice help channel deposit shows the usage`},
	{line: "channel deposit C x", want: `AMOUNT: want a whole number from 1 to 2^63-1, not "x"`},
	{line: "channel deposit C 0", want: `AMOUNT: want a whole number from 1 to 2^63-1, not "0"`},
	{line: "channel open --deposit=-1", want: `--deposit: want a whole number of at least 0, not "-1"`},
	{line: "channel open --expires tomorrow", want: `--expires: want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not "tomorrow"`},
	{line: "pay", want: `--max-price AMOUNT is required: sluice info prints the price of a chunkset`},
	{line: "pay --max-price 1", want: `--max-spend AMOUNT is required: it limits the sum of all payments`},
	{line: "pay --max-price 1 --max-spend 9 --chunksets 0", want: `--chunksets 0: must be at least 1`},
	{line: "pay --max-price free", want: `--max-price: want a whole number of at least 0, not "free"`},

	// Blobs.
	{line: "put", want: `put requires the argument FILE: sluice help put shows the usage`},
	{line: "put a", want: `put requires the argument BLOB: sluice help put shows the usage`},
	{line: "put a b team/c", want: `team/c is a single blob: want ACCOUNT/PREFIX/, with the last slash, as the target of several sources`},
	{line: "put a/x b/x team/", want: `a/x and b/x would both be team/x: copy one of them by itself`},
	{line: "put . a team/", want: `. has no name to keep among several: store it by itself`},
	{line: "put a - team/", want: `standard input has no name: want ACCOUNT/NAME and not team/`},
	{line: "put a b team/ -q c/d", want: `c/d is a single blob: want ACCOUNT/PREFIX/, with the last slash, as the target of several sources`},
	{line: "put a b team/ --expires", want: `--expires requires a value: want --expires WHEN, or --expires=WHEN if the value begins with a dash`},
	{line: "put a b team/ --expires -q", want: `--expires requires a value: want --expires WHEN, or --expires=WHEN if the value begins with a dash`},
	{line: "put a --nonsense b team/", want: `put has no flag --nonsense: sluice help put lists the flags`},
	{line: "get team/a team/b none", want: `none is not a folder: want one, or a name that ends in /, for several blobs`},
	{line: "get team/a team/b -", want: `team/a, team/b cannot be written to standard output: want a single blob; sluice cat writes several`},
	{line: "cp a b team/c", want: `team/c is a single blob: want ACCOUNT/PREFIX/, with the last slash, as the target of several sources`},
	{line: "cp team/a b me/", want: `:team/a and b are not on one server: copy from one after another`},
	{line: "cp a :team/b :team/c/", want: `a and :team/b are not on one server: copy from one after another`},
	{line: "cp one:team/a two:team/b dir/", want: `one:team/a and two:team/b are not on one server: copy from one after another`},
	{line: "cp :team/a :me/a :team/c/", want: `team/a and me/a would both be team/c/a: copy one of them by itself`},
	{line: "put a team/b", code: cli.ExitNotFound, want: `there is no file a`},
	{line: "put . team/b", want: `. is a folder: use -r to store the files in it`},
	{line: "put - team/", want: `standard input has no name: want ACCOUNT/NAME and not team/`},
	{line: "put a /b", want: `"/b" has no account: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "put a ''", want: `the operand is empty: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "put a prod:team/b", want: `the context prod: there is no such context: prod (there are none yet: sluice context add NAME URL)`},
	{line: "put me/a team/b", code: cli.ExitNotFound, want: `there is no file me/a; cp and sync take :me/a for the server's`},
	{line: "put a team/b -e soon", want: `--expires: want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not "soon"`},
	{line: "put a team/b -e 2020-01-01", want: `--expires: 2020-01-01T00:00:00Z is in the past`},
	{line: "put a team/b --meta x", want: `--meta: want NAME=VALUE, not "x"`},
	{line: "put a team/b --part-size 6GiB", want: `--part-size: want a size from 1 to 5GiB, such as 16MiB, not "6GiB"`},
	{line: "put a team/b --url http://h --context prod", want: `--url and --context both name a server: use one of them`},
	{line: "put a team/b --context prod", want: `--context: there is no such context: prod (there are none yet: sluice context add NAME URL)`},
	{line: "get", want: `get requires the argument BLOB: sluice help get shows the usage`},
	{line: "get team", want: `team/ is not a blob: use -r to read all blobs below it`},
	{line: "get -r team -", want: `team/ cannot be written to standard output: want a single blob; sluice cat writes several`},
	{line: "get team/a none/b", code: cli.ExitNotFound, want: `there is no folder none`},
	{line: "get team/a ''", want: `the name of the file is empty: want a file, a folder, or - for standard output`},
	{line: "get team/..", want: `.. cannot be the name of a file: name the file after the blob`},
	{line: "get :team/a prod:team/b ./x", want: `:team/a and prod:team/b are not on one server: copy from one after another`},
	{line: "mv team/a prod:team/b", want: `team/a and prod:team/b are not on one server: name one after another`},
	{line: "rm team/a prod:team/b", want: `team/a and prod:team/b are not on one server: name one after another`},
	{line: "get team/a - --json", want: `--json and - both write to standard output: use one of them`},
	{line: "get team/a --pay", want: `--max-price AMOUNT is required: sluice info prints the price of a chunkset`},
	{line: "get team/a --pay --max-price 1", want: `--max-spend AMOUNT is required: it limits the sum of all payments`},
	{line: "get team/a --max-spend 9", want: `--max-price, --max-spend and the other limits of purchases require --pay`},
	{line: "get team/a --pay --session ID", want: `--pay and --session both choose who pays: use one of them`},
	{line: "cat team/a --max-chunksets 1", want: `--max-chunksets requires --pay or --session`},
	{line: "cat team/a --session ID --max-chunksets 0", want: `--max-chunksets 0: must be at least 1`},
	{line: "sync :team b --pay --max-price 1 --max-spend 9 --purchase 0", want: `--purchase 0: must be at least 1`},
	{line: "sync . :team --pay --max-price 1 --max-spend 9", want: `the source is local: --pay and the other flags for paid reads have no meaning`},
	{line: "cat team/a --pay --max-price 1 --max-spend 9 --account-file /nonexistent/key", code: cli.ExitNotFound, want: `cannot read the account in /nonexistent/key: file does not exist: sluice account new makes one`},
	{line: "ls -R team", want: `ls has no flag -R: did you mean --recursive?`},
	{line: "rm -f team/a", want: `rm has no flag -f: did you mean --yes?`},
	{line: "login", want: `there is no command "login": did you mean context add?`},
	{line: "mkdir team/a", want: `there is no command "mkdir", and no need for one: folders come and go with the names of blobs`},
	{line: "mb team", want: `there is no command "mb", and no need for one: an account exists while it has blobs`},
	{line: "ls .", want: `./: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "put a ./team/x", want: `./team/x: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "put a TEAM_A/x", want: `TEAM_A/x: the account must be in lower case, unless it is an address: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "cp a :TEAM_A/x", want: `TEAM_A/x: the account must be in lower case, unless it is an address: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "put a team/x --meta foo=1 --meta Foo=2", want: `--meta: Foo is set twice`},
	{line: "put - team/x --dry-run", want: `--dry-run has no meaning for standard input, which would be read`},
	{line: "get team/x - --dry-run", want: `--dry-run has no meaning for standard output`},
	{line: "get team/x --pay --max-price 0 --max-spend 5", want: `--max-price and --max-spend: 0 units buy nothing; without the flags, reads that are free are free`},
	{line: "key create --scopes reed --all-accounts", want: `--scopes: the key is invalid: "reed" is not a scope; the scopes are read, create, write, retain, bypass, channels, admin`},
	{line: "lock team/x", want: `nothing to change: set --until, --end, --hold or --no-hold; sluice stat shows a lock`},
	{line: "lock team/x --until 2001-01-01", want: `--until: 2001-01-01T00:00:00Z is in the past`},
	{line: "lock team/x --until 30d --end", want: `--until and --end can't be used together`},
	{line: "lock team/ --hold", want: `team/ is not a blob: use -r to lock all blobs below it`},
	{line: "lock team/x --until 30d --mode compliance", want: `standard input is not a terminal to confirm on: use --yes to do it without a question; nothing was changed`},
	{line: "rm team/x --bypass", want: `--bypass is for a --version: no lock forbids other deletions`},
	{line: "bucket versions team --locks", want: `--for, --most and the flags of locks need on or off`},
	{line: "bucket rules --preview", want: `--preview needs an account`},
	{line: "bucket rules team $FILE", file: `[{"id":"a","expireDay":1}]`, want: `$FILE: want the account's rules as sluice bucket rules ACCOUNT --json prints them, or [] for none: json: unknown field "expireDay"`},
	{line: "bucket rules team $FILE", file: `{"account":"team"}`, want: `$FILE: want the account's rules as sluice bucket rules ACCOUNT --json prints them, or [] for none: there are no rules`},
	{line: "cat team/", want: `team/ is not the name of a blob: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "stat", want: `stat requires the argument BLOB: sluice help stat shows the usage`},
	{line: "mv team/a/ team/b", want: `team/a/ is not a blob: use -r to move all blobs below it`},
	{line: "rm team", want: `team/ is not a blob: use -r to delete all blobs below it`},
	{line: "upload abort", want: `upload abort requires the argument ID: sluice help upload abort shows the usage`},
	{line: "upload ls ~x", want: `~x/: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "upload ls team/a", want: `team/a is not an account: want ACCOUNT, such as team`},
	{line: "ls -", want: `-/: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`},
	{line: "upload ls prod:team --data x", want: `prod:team/ is on a server: omit the context, or the database`},

	// A server or a database.
	{line: "key list --url http://h --data x", want: `--url names a server, and --data a database: name one of them`},
	{line: "group show a --context prod --meta postgres://h/d", want: `--context names a server, and --meta a database: name one of them`},
	{line: "key list --key-file k", want: `--key-file and --ca-file are for a server: name it with --url or --context`},
	{line: "key create --scopes read --all-accounts --s3 --s3-secret-key-file k --url http://h", want: `--s3-secret-key-file is for a database: a server has its own`},
	{line: "check --url http://h", want: `--url and --context require --recorded: everything else is checked on a machine that reaches the instance's stores`},
	{line: "check --recorded --url http://h --config $FILE", want: `--url names a server, and --config a database: name one of them`},
	{line: "place set team public --data x", want: `--reads is required: the rules of places depend on the instance's setting; --config names the file that has it`},
	{line: "place set team everyone", want: `WHO everyone: want one of public, key, free, instance, above`},
	{line: "place block team", want: `place block requires the argument REASON: sluice help place block shows the usage`},
	{line: "place block team ''", want: `REASON is empty: readers see it; place unblock ends a block`},
	{line: "place show prod:team --url http://h", want: `prod:team/ has a context: name it with --context`},
	{line: "action list --limit=-1", want: `--limit -1: must be at least 1`},
	{line: "cp a b", want: `a and b are both local: did you mean :b, which is on the current server? CONTEXT:ACCOUNT/NAME is on another`},
	{line: "cp a http://h/v1", want: `"http://h/v1" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`},
	{line: "cp a prod:team/", want: `the context prod: there is no such context: prod (there are none yet: sluice context add NAME URL)`},
	{line: "cp :team/a b --meta x=y", want: `the target is local: --expires and the other flags for stored blobs have no meaning`},
	{line: "cp ./a ../b", want: `./a and ../b are both local: want ACCOUNT/NAME for one of them`},
	{line: "sync a b", want: `a and b are both local: did you mean :b, which is on the current server? CONTEXT:ACCOUNT/NAME is on another`},
	{line: "sync - :team", want: `sync has no - as operand: want a folder and ACCOUNT/PREFIX/`},
	{line: "sync none :team", code: cli.ExitNotFound, want: `there is no folder none`},

	// Transfers.
	{line: "put a b team/ --jobs 0", want: `--jobs 0: must be from 1 to 256`},
	{line: "get -r team/a b -j x", want: `--jobs: want a whole number, not "x"`},
	{line: "put a team/ --exclude *.tmp", want: `--include and --exclude require -r: they choose among the names in a folder or below a prefix`},
	{line: "get -r team/a b --exclude [", want: `the request is invalid: the pattern "[" has a [ without characters and a ]`},
	{line: "info --ca-file /nonexistent/ca.pem", want: `--ca-file: cannot read the file: open /nonexistent/ca.pem: no such file or directory`},
	{line: "ls team --ca-file $FILE", file: "no certificate", want: `--ca-file: the file $FILE has no certificate in PEM`},
	{line: "cp :team/a b --create-only", want: `the target is local: --expires and the other flags for stored blobs have no meaning`},

	// Values from variables that are not set.
	{line: "ls team --url ''", want: `--url is empty: want --url URL, or omit the flag`},
	{line: "du team --url=", want: `--url is empty: want --url URL, or omit the flag`},
	{line: "ls team --context ''", want: `--context is empty: want --context NAME, or omit the flag`},
	{line: "info --key-file ''", want: `--key-file is empty: want --key-file FILE, or omit the flag`},
	{line: "context add prod http://h --key-file ''", want: `--key-file is empty: want --key-file FILE, or omit the flag`},
	{line: "put a team/b --content-type '' --cache-control ''", want: `--content-type is empty: want --content-type TYPE, or omit the flag; --cache-control is empty: want --cache-control VALUE, or omit the flag`},
	{line: "get team/a --pay --max-price 1 --max-spend 9 --account-file ''", want: `--account-file is empty: want --account-file FILE, or omit the flag`},
	{line: "bench use --session ''", want: `--session is empty: want --session ID,..., or omit the flag`},
	{line: "key list --data ''", want: `--data is empty: want --data "./sluice-data", or omit the flag`},
	{line: "stat http://h/v1", want: `"http://h/v1" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`},

	// Measurements.
	{line: "bench", want: `bench requires the argument WORKLOAD: sluice help bench shows the usage`},
	{line: "bench read", want: `there is no workload "read": want put, get, range, multipart, use or mixed`},
	{line: "bench get a:b", want: `"a:b": want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context`},
	{line: "bench get --size 4KB=x", want: `--size: want a size up to 5TiB such as 4KiB, or sizes with weights such as 4KiB=90,1MiB=10, not "4KB=x"`},
	{line: "bench get -c 0", want: `--connections 0: must be from 1 to 100000`},
	{line: "bench get --duration=-1s", want: `--duration -1s: must be positive`},
	{line: "bench get --count=-1", want: `--count -1: must be at least 1`},
	{line: "bench get --rate=-1", want: `--rate -1: must be more than 0 and at most 10000000`},
	{line: "bench get --rate many", want: `--rate: want a number, not "many"`},
	{line: "bench get --blobs 0", want: `--blobs 0: must be at least 1`},
	{line: "bench use --sessions 0", want: `--sessions 0: must be from 1 to 1000000`},
	{line: "bench range --range 6GiB", want: `--range: want a size from 1 to 5GiB, such as 16MiB, not "6GiB"`},
	{line: "bench get --timeout 0s", want: `--timeout 0s: must be at least 1ms`},
	{line: "bench mixed --mix get=1,read=1", want: `--mix: want kinds of operations with weights from 1 to 1000000, such as get=80,put=20, of put, get, range, multipart, use, not "get=1,read=1"`},
	{line: "bench get --url http://h --context prod", want: `--url and --context both name a server: use one of them`},

	// Variables.
	{line: "serve", variables: variables{"SLUICE_META": "mysql://u:canary@h"}, want: `SLUICE_META: --meta: want postgres://USER@HOST/NAME, or nothing for a database in the data folder`},
	{line: "serve", variables: variables{"SLUICE_CHUNKSET_PRICE": "0"}, want: `SLUICE_CHUNKSET_PRICE: --chunkset-price 0: must be at least 1`},
	{line: "serve", variables: variables{"SLUICE_PROFILE": "staging"}, want: `SLUICE_PROFILE: --profile staging: want one of local, hosted`},
	{line: "serve", variables: variables{"SLUICE_OPEN_TO_NETWORK": "perhaps"}, want: `SLUICE_OPEN_TO_NETWORK: --open-to-network: want true or false, not "perhaps"`},
	{line: "serve", variables: variables{"SLUICE_CONFIG": "/nonexistent/sluice.yaml"}, want: `SLUICE_CONFIG: --config: there is no file /nonexistent/sluice.yaml: name an existing one, or omit --config to use the defaults`},

	// Configuration files.
	{line: "serve --config /nonexistent/sluice.yaml", want: `--config: there is no file /nonexistent/sluice.yaml: name an existing one, or omit --config to use the defaults`},
	{line: "serve --config /", want: `--config: cannot read the file: read /: is a directory`},
	{line: "serve --config $FILE", file: "addr: localhost:0\nchunkset-prize: 3\n", want: `$FILE:2: unknown key "chunkset-prize": did you mean chunkset-price?`},
	{line: "serve --config $FILE", file: "chunkset_price: 3\n", want: `$FILE:1: unknown key "chunkset_price": did you mean chunkset-price?`},
	{line: "serve --config $FILE", file: "--addr: x\n", want: `$FILE:1: unknown key "--addr": did you mean addr?`},
	{line: "serve --config $FILE", file: "nonsense: 1\n\n# a comment\nconfig: x\n", want: `$FILE:1: unknown key "nonsense": sluice help serve lists the settings; $FILE:4: unknown key "config": sluice help serve lists the settings`},
	{line: "serve --config $FILE", file: "chunkset-price: 0\n\nbase-path: x\n", want: `$FILE:3: --base-path: base path "x": want "/" and one name of letters, digits, "-", "_" and "."; $FILE:1: --chunkset-price 0: must be at least 1`},
	{line: "serve --config $FILE", file: "addr: x\naddr: y\n", want: `$FILE:2: addr is set twice, first in line 1: remove one of them`},
	{line: "serve --config $FILE", file: "addr: [a, b]\n", want: `$FILE:1: --addr: want a single value`},
	{line: "serve --config $FILE", file: "allowed-hosts: {a: b}\n", want: `$FILE:1: --allowed-hosts: want a value or a list of values`},
	{line: "serve --config $FILE", file: "addr: \"x\n", want: `$FILE:2: not valid YAML: found unexpected end of stream`},
	{line: "serve --config $FILE", file: "just text\n", want: `$FILE:1: want flags and their values, a pair a line, such as addr: localhost:9090`},
	{line: "serve --config $FILE", file: "profile: staging\n", want: `$FILE:1: --profile staging: want one of local, hosted`},
	{line: "config check --config $FILE", file: "reads: paid\nchunkset-price: 0\n", want: `$FILE:2: --chunkset-price 0: must be at least 1`},
	{line: "key list --config $FILE", file: "reeds: paid\n", want: `$FILE:1: unknown key "reeds": did you mean reads?`},
}

// TestWrongCalls checks the output of wrong calls: the mistake, its place and the remedy, in one
// line and without secrets. Invariant 163.
func TestWrongCalls(t *testing.T) {
	if len(wrongCalls) < 60 {
		t.Errorf("only %d calls", len(wrongCalls))
	}
	for _, call := range wrongCalls {
		t.Run(call.line, func(t *testing.T) {
			ownContexts(t)
			t.Chdir(testenv.MemoryDir(t))
			for name, value := range call.variables {
				t.Setenv(name, value)
			}
			file := filepath.Join(testenv.MemoryDir(t), "sluice.yaml")
			testenv.OK(t, os.WriteFile(file, []byte(call.file), 0o600))
			args := strings.Fields(strings.ReplaceAll(call.line, "$FILE", file))
			for i, arg := range args {
				if arg == "''" {
					args[i] = ""
				}
			}
			code := cmp.Or(call.code, cli.ExitUsage)
			want := "sluice: " + strings.ReplaceAll(call.want, "$FILE", file) + "\n"
			if r := sluice(args...); r.code != code || r.stdout != "" || r.stderr != want {
				t.Errorf("exit code %d, %q\n got %s\nwant %s", r.code, r.stdout, r.stderr, want)
			}
		})
	}
}

// TestUnknownVariables checks that an unknown variable is a warning, and that the variables of
// Kubernetes and tests are not.
func TestUnknownVariables(t *testing.T) {
	ownContexts(t)
	t.Setenv("SLUICE_CHUNKSET_PRIZE", "1")
	t.Setenv("SLUICE_NONSENSE", "1")
	for _, name := range []string{"SLUICE_SERVICE_HOST", "SLUICE_PG_SERVICE_PORT", "SLUICE_PORT", "SLUICE_PORT_9090_TCP_ADDR", "SLUICE_PG_PORT_5432_TCP", "SLUICE_TEST_REQUIRE", "SLUICE_URL", "SLUICE_KEY"} {
		t.Setenv(name, "1")
	}
	want := "sluice: warning: the environment variable SLUICE_CHUNKSET_PRIZE is unknown and has no effect: did you mean SLUICE_CHUNKSET_PRICE?\n" +
		"sluice: warning: the environment variable SLUICE_NONSENSE is unknown and has no effect\n"
	testenv.Equal(t, must(t, "version").stderr, want, "stderr")
}

// TestFailedStartsNameTheRemedy checks the messages of starts that fail for the state that they
// find.
func TestFailedStartsNameTheRemedy(t *testing.T) {
	ownContexts(t)
	busy := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { testenv.Check(t, busy.Close()) }()
	foreign := testenv.MemoryDir(t)
	testenv.OK(t, os.WriteFile(filepath.Join(foreign, "photo.jpg"), nil, 0o600))
	newer := filepath.Join(testenv.MemoryDir(t), "data")
	makeKey(t, newer, "--scopes", "read", "--all-accounts")
	change(t, newer, `INSERT INTO schema_version (version) VALUES (999)`)
	addr := busy.Addr().String()
	for want, args := range map[string][]string{
		"sluice: cannot listen on " + addr + ": the port is in use: stop the program that uses it, or choose another with --addr HOST:PORT (port 0 selects a free one): ": {"--addr", addr, "--data", filepath.Join(testenv.MemoryDir(t), "data")},
		"sluice: the folder " + foreign + ` is not a data folder (it contains "photo.jpg"): name another with --data DIR` + "\n":                                          {"--addr", "127.0.0.1:0", "--data", foreign},
		"newer than this program: use the version of sluice that wrote it, or a newer one\n":                                                                              {"--addr", "127.0.0.1:0", "--data", newer},
	} {
		if r := sluice(append([]string{"serve"}, args...)...); r.code != cli.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", args, r, want)
		}
	}
}
