"""A session in JSON over HTTP/1.1, as Patroni and people with curl have it: prints what came back.

Run against real etcd and against us; the transcripts must be equal. What may differ is replaced:
ids that were drawn, sizes of the page store, where the log is, and the space after "proto:",
which Go makes another one in some builds.
"""
import base64
import hashlib
import http.client
import json
import socket
import struct
import sys

HOST, PORT = sys.argv[1], int(sys.argv[2])
PATIENCE = 20


def b64(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


FREE = {"cluster_id", "member_id", "dbSize", "dbSizeInUse", "raftIndex", "raftAppliedIndex", "leader",
        "memberID", "clientURLs", "peerURLs", "raft_term", "raftTerm", "dbSizeQuota", "remaining_bytes"}

def normal(value, name=""):
    if isinstance(value, dict):
        if "grantedTTL" in value:
            value["TTL"] = "*"
        return {k: normal(v, k) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return [normal(v, name) for v in value]
    if name in FREE:
        return "*"
    if name in ("ID", "lease") and len(value) > 12:
        return "*"
    if isinstance(value, str):
        return value.replace("proto:\u00a0", "proto: ")
    return value


def shown(body):
    out = []
    for line in body.split("\n"):
        if line.strip():
            try:
                out.append(json.dumps(normal(json.loads(line)), sort_keys=True))
            except ValueError:
                out.append("no JSON: " + line[:200])
    return " | ".join(out)


def call(path, body, verb="POST", quiet=False, **headers):
    c = http.client.HTTPConnection(HOST, PORT, timeout=PATIENCE)
    data = body if isinstance(body, (bytes, type(None))) else body.encode() \
        if isinstance(body, str) else json.dumps(body).encode()
    c.request(verb, path, data, {k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    text = r.read().decode("utf-8", "replace")
    if not quiet:
        kind = [r.getheader("Content-Type"), r.getheader("Grpc-Metadata-Content-Type"),
                r.getheader("Transfer-Encoding"), r.getheader("WWW-Authenticate")]
        asked = (data or b"")[:120]
        print(verb, path, asked, r.status, kind, shown(text), flush=True)
    c.close()
    return json.loads(text) if text.startswith("{") and "\n" not in text.strip() else text


# --- what a body may be ---

BAD_TEXTS = [
    "", " \n\t ", "{}", "null", "[]", "17", '"x"', "true", "x", "{", '{"key"', '{"key":', '{"key":"', "{'key':1}",
    '{"key","x"}', '{"a":1,}', '{"a":[1,]}', '{"a":[1 2]}', '{"a":1 "b":2}', '{"a":01}', '{"a":-}', '{"a":1.}',
    '{"a":1e}', '{"a":1e+}', '{"a":tru}', '{"a":nil}', '{"a":fals3}', '{"a":"\x01"}', '{"a":"\\x"}', '{"a":"\\u12g4"}',
    "\u00e9", "/* */{}", "{}x", "{} {\"key\":\"!\"}", "}", "]", ":", ",", "NaN", '{"limit":NaN}', '{"limit":Infinity}',
    '{"limit":1e3}', '{"limit":"-1.50e1"}', '{"limit":"10e-1"}', '{"limit":0e99999999999}', '{"limit":"5 6"}',
    '{"limit":9223372036854775807}', '{"limit":9223372036854775808}', '{"limit":-9223372036854775808}',
    '{"limit":-9223372036854775809}', '{"limit":1.5}', '{"limit":1e20}', '{"limit":1e9999999999}', '{"limit":" 5"}',
    '{"limit":"5 "}', '{"limit":"5\u00a0"}', '{"limit":""}', '{"limit":true}', '{"limit":[1]}', '{"limit":{}}',
    '{"limit":"1e"}', '{"limit":"1e 5"}', '{"limit":"0x10"}', '{"limit":"+5"}', '{"limit":"05"}', '{"limit":".5"}',
    '{"limit":100000000000000000000000000000}', '{"limit":"1,"}', '{"limit":null}',
    '{"sort_order":"ASCEND"}', '{"sort_order":"UP"}', '{"sort_order":"1"}', '{"sort_order":7}',
    '{"sort_order":2147483648}', '{"sort_order":1.0}', '{"sort_order":null}', '{"sort_order":true}',
    '{"serializable":"true"}', '{"serializable":1}', '{"serializable":null}', '{"serializable":true}',
    '{"key":5}', '{"key":true}', '{"key":{}}', '{"key":[]}', '{"key":"Zm9v","key":"Zm9v"}',
    '{"range_end":"","rangeEnd":""}', '{"range_end":null,"rangeEnd":null}', '{"Key":"Zm9v"}', '{"rangeend":"x"}',
    '{"key":"Zm9"}', '{"key":"Zm9v="}', '{"key":"Zm9vZg"}', '{"key":"Zm9vZg="}', '{"key":"Zm9vZg=="}', '{"key":"Z"}',
    '{"key":"Zm=v"}', '{"key":"===="}', '{"key":"Zg=x"}', '{"key":"-_-_"}', '{"key":"+/+/"}', '{"key":"-/-/"}',
    '{"key":"Zm\\n9v\\r\\n"}', '{"key":"Zm9v\\n\\n\\n\\n"}', '{"key":"Zg==\\n\\n\\n\\n"}', '{"key":"Zg=\\n=\\n\\n\\n"}',
    '{"key":"Zm 9v"}', '{"key":"Zm9\u00e9"}', '{"key":"Zh"}', '{"k\\u0065y":"\\u005am9v"}', '{"nobody":[{"a":[1,{}]},"x"]}',
    '{"x":"\\ud800"}', '{"x":"\\ud800","limit":5}', '{"x":"\\ud83d\\ude00","limit":5}', '{"x":"\\udc00\\ud800"}',
    '{"x":"\\ud800\\u0041aaaa"}', '{"\\ud800aaaaaaaaa":1}', '{"\u00e9":1,\n "key":"!"}', '{\n\n  "key" : 5}',
    '{"@type":"x"}', '{"[a.b]":1,"limit":1}', '{"[]":1}', '{"":1}', '{"key\\u0000":"Zm9v"}',
]
BAD_BYTES = [b'{"x":"a\xff"}', b'{"x\xc3":1}', b'\xff', b'{"key":"\xff"}', b'{"a":1\x00}', b'\xef\xbb\xbf{}',
             b'{"x":"\xed\xa0\x80"}', b'{"x":"\xf4\x90\x80\x80"}', b'{"x":"\xc0\x80"}', b'{"a":\x7f}', b'{\xa0}']
TXNS = [
    {}, {"compare": [{}]}, {"success": [{}]}, {"success": [None]}, {"success": None}, {"success": {}}, {"success": [[]]},
    {"success": ["x"]}, {"success": [{"request_put": None}]}, {"success": [{"request_put": {}}]},
    {"success": [{"request_put": {"key": b64("a")}, "request_range": {"key": b64("a")}}]},
    {"success": [{"request_put": None, "request_range": {"key": b64("a")}}]},
    {"compare": [{"key": b64("a"), "version": 1, "value": ""}]},
    {"compare": [{"key": b64("a"), "target": "CREATE", "create_revision": "0"}],
     "success": [{"request_put": {"key": b64("a"), "value": b64("1")}}],
     "failure": [{"requestRange": {"key": b64("a")}}]},
    {"compare": [{"key": b64("a"), "target": "CREATE", "create_revision": "0"}],
     "success": [{"request_put": {"key": b64("a"), "value": b64("1")}}],
     "failure": [{"requestRange": {"key": b64("a")}}]},
    {"compare": [{"key": b64("a"), "target": "VALUE", "result": "EQUAL", "value": b64("1")}],
     "success": [{"request_delete_range": {"key": b64("a"), "prev_kv": True}}, {"request_txn": {"success": [
         {"request_range": {"key": b64("a")}}, {"request_put": {"key": b64("b"), "prev_kv": True}}]}}]},
    {"success": [{"request_put": {"key": b64("a")}}, {"request_put": {"key": b64("a")}}]},
    {"success": [{"request_range": {"key": b64("")}}]},
    {"compare": [{"key": b64("b"), "target": "MOD", "mod_revision": 5, "result": "LESS", "range_end": "AA=="}]},
]


def bodies():
    for text in BAD_TEXTS:
        call("/v3/kv/range", text)
    for data in BAD_BYTES:
        call("/v3/kv/range", data)
    for depth in (9998, 9999, 10000, 20000):
        call("/v3/kv/range", '{"x":' + "[" * depth + "]" * depth + ',"limit":true}')
    for txn in TXNS:
        call("/v3/kv/txn", txn)
    call("/v3/kv/txn", '{"success":[{"request_txn":' * 3333 + "5" + "}]}" * 3333)
    call("/v3/cluster/member/remove", '{"ID":"-1"}')
    call("/v3/cluster/member/remove", '{"ID":18446744073709551616}')
    call("/v3/cluster/member/add", '{"peerURLs":"http://a"}')
    call("/v3/cluster/member/add", '{"peerURLs":[1]}')
    call("/v3/cluster/member/add", '{"peerURLs":[null]}')
    call("/v3/cluster/member/add", '{"peerURLs":["\\ud800"]}')
    call("/v3/kv/put", {"key": b64("big"), "value": b64("x" * (3 << 19))})
    call("/v3/kv/put", {"key": b64("big"), "value": b64("x" * (2 << 20))})


# --- where it is sent ---

def paths():
    for path in ("/v3/", "/v3/kv", "/v3/kv/range/", "/v3/kv/Range", "/v3/nobody/home", "/v3beta/kv/range", "/v3alpha/kv/range",
                 "/v3/kv/rangestream", "/v3/kv/range?key=Zm9v"):
        call(path, {"key": b64("foo")})
    for verb in ("GET", "PUT", "DELETE", "PATCH"):
        call("/v3/kv/range", {"key": b64("foo")}, verb=verb)
        call("/v3/watch", None, verb=verb)
        call("/v3/nobody/home", None, verb=verb)
    call("/v3/kv/range", {"key": b64("foo")}, Content_Type="text/plain", Accept="image/png")
    for timeout in ("abc", "5", "S", "1x", "-1S", "5S", "99999999H"):
        call("/v3/kv/range", {"key": b64("foo")}, Grpc_Timeout=timeout)
        call("/v3/lease/keepalive", {"ID": 1}, Grpc_Timeout=timeout)
    call("/v3/kv/range", {"key": b64("foo")}, Grpc_Metadata_hasleader="true")
    call("/v3/kv/range", {"key": b64("foo")}, Authorization="nobody")


# --- what it is good for ---

def keys():
    call("/v3/kv/put", {"key": b64("foo"), "value": b64("bar")})
    call("/v3/kv/put", {"key": b64("foo"), "value": b64("bar2"), "prev_kv": True})
    call("/v3/kv/put", {"key": b64("foo"), "ignore_value": True, "value": b64("x")})
    call("/v3/kv/put", {"key": b64("foo"), "lease": "12345"})
    call("/v3/kv/put", {})
    for i in range(5):
        call("/v3/kv/put", {"key": b64("key%d" % i), "value": b64(bytes([i]) * i)}, quiet=True)
    call("/v3/kv/range", {"key": b64("key"), "range_end": b64("kez")})
    call("/v3/kv/range", {"key": b64("key"), "range_end": b64("kez"), "limit": 2, "sort_order": "DESCEND",
                          "sort_target": "CREATE"})
    call("/v3/kv/range", {"key": b64("key"), "range_end": b64("kez"), "count_only": True})
    call("/v3/kv/range", {"key": b64("key"), "range_end": b64("kez"), "keys_only": True, "serializable": True})
    call("/v3/kv/range", {"key": b64("foo"), "revision": "1000000"})
    call("/v3/kv/deleterange", {"key": b64("key0"), "range_end": b64("key2"), "prev_kv": True})
    call("/v3/kv/deleterange", {"key": b64("nobody")})
    call("/v3/kv/compaction", {"revision": "4"})
    call("/v3/kv/compaction", {"revision": "4"})
    call("/v3/kv/compaction", {"revision": "400000"})
    call("/v3/kv/range", {"key": b64("foo"), "revision": "3"})


def lease_calls():
    call("/v3/lease/grant", {"TTL": 100, "ID": 7})
    call("/v3/lease/grant", {"TTL": 100, "ID": "7"})
    call("/v3/lease/grant", {"TTL": 0})
    call("/v3/kv/put", {"key": b64("leased"), "lease": "7"})
    for front in ("/v3", "/v3/kv"):
        call(front + "/lease/timetolive", {"ID": 7, "keys": True})
        call(front + "/lease/leases", {})
    call("/v3/lease/timetolive", {"ID": 8})
    call("/v3/lease/keepalive", {"ID": 7})
    call("/v3/lease/keepalive", '{"ID":7}{"ID":"8"}\n {"ID":7} ')
    call("/v3/lease/keepalive", "")
    call("/v3/lease/keepalive", "{}")
    call("/v3/lease/keepalive", '{"ID":7}[]{"ID":7}')
    call("/v3/lease/keepalive", "x")
    call("/v3/kv/lease/revoke", {"ID": 7})
    call("/v3/lease/revoke", {"ID": 7})


def admin():
    call("/v3/cluster/member/list", {})
    call("/v3/cluster/member/list", {"linearizable": True})
    call("/v3/cluster/member/add", {})
    call("/v3/cluster/member/remove", {"ID": 5})
    call("/v3/cluster/member/promote", {"ID": "5"})
    call("/v3/cluster/member/update", {"ID": "5", "peerURLs": ["http://127.0.0.1:1"]})
    call("/v3/maintenance/alarm", {"action": "GET"})
    call("/v3/maintenance/status", {})
    call("/v3/maintenance/defragment", {})
    call("/v3/maintenance/hashkv", {})
    call("/v3/maintenance/transfer-leadership", {"targetID": 5})
    call("/v3/maintenance/downgrade", {"action": "VALIDATE", "version": "3.6"})
    call("/v3/maintenance/downgrade", {"action": "CANCEL"})
    call("/v3/maintenance/downgrade", {"action": "ENABLE", "version": "x"})
    if "hash" in call("/v3/maintenance/hash", {}, quiet=True):
        print("a hash")


# --- streams ---

class Stream:
    """A request whose response is read line by line while it goes on."""

    def __init__(self, path, body):
        self.socket = socket.create_connection((HOST, PORT), timeout=PATIENCE)
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                            (path.encode(), len(body), body.encode()))
        self.response = http.client.HTTPResponse(self.socket, method="POST")
        self.response.begin()

    def line(self):
        text = self.response.readline().decode()
        print("line", shown(text), flush=True)
        return text

    def lines_in_any_order(self, count):
        for text in sorted(shown(self.response.readline().decode()) for _ in range(count)):
            print("line", text, flush=True)

    def close(self):
        self.response.close()
        self.socket.close()


def watches():
    w = Stream("/v3/watch", '{"create_request":{"key":"%s","range_end":"%s","prev_kv":true}}'
               '{"create_request":{"key":"%s","watch_id":5,"filters":["NOPUT"]}}' %
               (b64("w"), b64("x"), b64("w")))
    for _ in range(2):
        w.line()
    call("/v3/kv/put", {"key": b64("w"), "value": b64("1")})
    w.line()
    call("/v3/kv/put", {"key": b64("w"), "value": b64("2<>&")})
    w.line()
    call("/v3/kv/deleterange", {"key": b64("w")})
    w.lines_in_any_order(2)
    w.close()
    w = Stream("/v3/watch", '{"create_request":{"key":"%s"}} {"progress_request":{}}' % b64("foo"))
    w.lines_in_any_order(2)
    w.close()
    w = Stream("/v3/watch", '{"create_request":{"key":"%s","start_revision":"2"}}' % b64("foo"))
    for _ in range(2):
        w.line()
    w.close()
    w = Stream("/v3/watch", '{"create_request":{"key":"%s"}}{"cancel_request":{"watch_id":0}} x' % b64("foo"))
    for _ in range(2):
        w.line()
    w.close()


def snapshot():
    c = http.client.HTTPConnection(HOST, PORT, timeout=PATIENCE)
    c.request("POST", "/v3/maintenance/snapshot", b"{}")
    r = c.getresponse()
    whole = b""
    for line in r:
        whole += base64.b64decode(json.loads(line)["result"].get("blob", ""))
    data, end = whole[:-32], whole[-32:]
    print("snapshot", r.status, len(data) % 512, hashlib.sha256(data).digest() == end, data[16:20] == b"\xed\xda\x0c\xed")
    c.close()


def large():
    for i in range(64):
        call("/v3/kv/put", {"key": b64("large%03d" % i), "value": b64(bytes([i]) * 30001)}, quiet=True)
    got = call("/v3/kv/range", {"key": b64("large"), "range_end": b64("largf")}, quiet=True)
    print("large", got["count"], [hashlib.sha256(base64.b64decode(kv["value"])).hexdigest()[:8] for kv in got["kvs"]])


# --- WebSocket ---

class WebSocket:
    def __init__(self, path, **headers):
        self.socket = socket.create_connection((HOST, PORT), timeout=PATIENCE)
        key = b64(b"0123456789abcdef")
        head = "GET %s HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n" % (path, key)
        for k, v in headers.items():
            head += "%s: %s\r\n" % (k.replace("_", "-"), v)
        self.socket.sendall(head.encode() + b"\r\n")
        self.file = self.socket.makefile("rb")
        self.status = self.file.readline().split()[1]
        fields = {}
        while True:
            line = self.file.readline().strip().decode()
            if not line:
                break
            name, value = line.split(":", 1)
            fields[name.lower()] = value.strip()
        want = b64(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        print("websocket", path, self.status, fields.get("sec-websocket-accept") == want,
              fields.get("sec-websocket-protocol"), flush=True)

    def send(self, text, opcode=1, fin=True):
        data, mask = text.encode(), b"\x01\x02\x03\x04"
        head = bytes([(0x80 if fin else 0) | opcode])
        head += bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(data))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def message(self):
        text = b""
        while True:
            head = self.file.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return None
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.file.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.file.read(8))[0]
            data = self.file.read(size)
            if head[0] & 15 in (9, 10):
                print("control", head[0] & 15, data)
                continue
            text += data
            if head[0] & 0x80:
                return text.decode()

    def line(self):
        got = self.message()
        print("message", "end" if got is None else shown(got), flush=True)

    def close(self):
        self.socket.close()


def websockets():
    w = WebSocket("/v3/watch")
    w.send('{"create_request":{"key":"%s"}}' % b64("ws"))
    w.line()
    call("/v3/kv/put", {"key": b64("ws"), "value": b64("y" * 70000)})
    w.line()
    w.send("are you there", opcode=9)
    w.send('{"create_req', fin=False)
    w.send('uest":{"key":"%s"}}' % b64("ws2"), opcode=0)
    w.line()
    w.close()
    w = WebSocket("/v3/lease/keepalive", Sec_WebSocket_Protocol="Bearer, token")
    w.send('{"ID":77}{"ID":78}')
    w.line()
    w.line()
    w.send("x")
    w.line()
    w.close()
    w = WebSocket("/v3/nobody/home")
    w.line()
    w.line()
    w.close()


# --- who asks: the last part, since from here on nobody may do anything without a token ---

def callers():
    call("/v3/auth/user/add", {"name": "root", "password": "x"})
    call("/v3/auth/user/grant", {"user": "root", "role": "root"})
    call("/v3/auth/enable", {})
    for token in ("", "Bearer", "Bearer ", "Bearer nobody", "nobody"):
        call("/v3/kv/range", {"key": b64("foo")}, Authorization=token)
        call("/v3/kv/range", {"key": b64("foo")}, Grpc_Metadata_Authorization=token)
        call("/v3/kv/range", {"key": b64("foo")}, Grpc_Metadata_Token=token)
        call("/v3/kv/range", {"key": b64("foo")}, Token=token)
    call("/v3/kv/range", {"key": b64("foo")})


for part in (bodies, paths, keys, lease_calls, admin, watches, snapshot, large, websockets, callers):
    if len(sys.argv) < 4 or part.__name__ in sys.argv[3:]:
        print("==", part.__name__, flush=True)
        part()
print("\ndone")
