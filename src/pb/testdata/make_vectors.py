#!/usr/bin/python3
"""Writes vectors.txt: messages encoded by protobuf for Python, which shares no code with us.

    src/pb/testdata/make_vectors.py >src/pb/testdata/vectors.txt

Each vector is a block of lines:

    message <full name>
    wire <hex>         what is to be decoded; "refused" comes next if that must fail
    canonical <hex>    what encoding the result must give, if that is not the wire again
    text               the decoded content in text format, up to the empty line that ends the block

Every message type of ../proto appears empty, with every field set, with extreme values and with
each member of its oneofs. After those come the cases worth a name, under a comment.
"""
import glob
import os
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor as FD
from google.protobuf.message import DecodeError

HERE = os.path.dirname(os.path.abspath(__file__))

# proto2 fields that etcd writes even when they are zero.
ALWAYS = {
    'raftpb.ConfState': ['auto_leave'],
    'raftpb.SnapshotMetadata': ['index', 'term'],
    'raftpb.Message': ['type'],
    'raftpb.HardState': ['term', 'vote', 'commit'],
    'raftpb.ConfChange': ['type', 'node_id'],
    'raftpb.ConfChangeSingle': ['type', 'node_id'],
    'walpb.Record': ['type', 'crc'],
    'walpb.Snapshot': ['index', 'term'],
    'etcdserverpb.Metadata': ['NodeID', 'ClusterID'],
    'snappb.snapshot': ['crc'],
}

# Messages that are part of our structs: all zero is the same as absent, and is not written.
INSIDE = {
    'raftpb.Snapshot': ['metadata'],
    'raftpb.SnapshotMetadata': ['conf_state'],
    'walpb.Snapshot': ['conf_state'],
}

EXTREMES = {
    FD.TYPE_INT64: (-2**63, 2**63 - 1, -1),
    FD.TYPE_UINT64: (2**64 - 1, 2**63, 128),
    FD.TYPE_UINT32: (2**32 - 1, 2**31, 127),
    FD.TYPE_BOOL: (True, True, True),
    FD.TYPE_ENUM: (-1, 2**31 - 1, -2**31),
    FD.TYPE_STRING: ('\U0010ffff', '\u00e9\n\r\t', '"\\\''),
    FD.TYPE_BYTES: (b'\x00', b'\xff\x80\x7f', b'\n\r\t"\\\''),
}


def load_messages():
    """All messages of ../proto by full name, map entries left out."""
    protos = sorted(glob.glob(os.path.join(HERE, '..', 'proto', '*.proto')))
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run(['protoc', '-I', os.path.dirname(protos[0]), '--descriptor_set_out', f.name]
                       + protos, check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    names = [f'{file.package}.{m.name}' for file in files.file for m in file.message_type]
    return {n: factory.GetPrototype(pool.FindMessageTypeByName(n)) for n in sorted(names)}


MESSAGES = load_messages()


def is_proto2(descriptor):
    return descriptor.full_name in ALWAYS or descriptor.file.name in (
        'raft.proto', 'wal.proto', 'snap.proto', 'etcdserver.proto')


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def plain_value(field):
    """A value that says which field it belongs to."""
    if field.type == FD.TYPE_STRING:
        return field.name
    if field.type == FD.TYPE_BYTES:
        return field.name.encode() + b'\x00\xfe'
    if field.type == FD.TYPE_BOOL:
        return True
    if field.type == FD.TYPE_ENUM:
        return field.enum_type.values[-1].number
    return field.number * 1000 + 7


def extreme_value(field, turn):
    if field.type == FD.TYPE_ENUM and is_proto2(field.containing_type):
        return field.enum_type.values[-1].number  # Python drops the others, Go and we do not
    return EXTREMES[field.type][turn % 3]


def fill(msg, value, depth, member=None):
    """Sets every field; of a oneof only the given member, else the last."""
    for i, field in enumerate(msg.DESCRIPTOR.fields):
        if member and field.containing_oneof and field.name != member:
            continue
        if is_map(field):
            getattr(msg, field.name)['a'].status = 1
            getattr(msg, field.name)['longer name'].SetInParent()
        elif field.type == FD.TYPE_MESSAGE:
            if depth == 0:
                continue
            repeated = field.label == FD.LABEL_REPEATED
            for _ in range(2 if repeated else 1):
                sub = getattr(msg, field.name)
                sub = sub.add() if repeated else sub
                sub.SetInParent()
                fill(sub, value, depth - 1)
        elif field.label == FD.LABEL_REPEATED:
            getattr(msg, field.name).extend([value(field, i), value(field, i + 1)])
        else:
            setattr(msg, field.name, value(field, i))


def canonical(msg):
    """The form we write: proto2 fields that are zero appear only where etcd writes them."""
    result = type(msg)()
    result.CopyFrom(msg)
    result.DiscardUnknownFields()
    settle(result)
    return result


def is_zero(msg):
    """Presence aside; lists that are there have something in them."""
    return all(not value or field.type == FD.TYPE_MESSAGE and is_zero(value)
               for field, value in msg.ListFields())


def settle(msg):
    always = ALWAYS.get(msg.DESCRIPTOR.full_name, [])
    for field in msg.DESCRIPTOR.fields:
        if is_map(field):
            continue
        if field.type == FD.TYPE_MESSAGE:
            if field.label == FD.LABEL_REPEATED:
                for sub in getattr(msg, field.name):
                    settle(sub)
            elif msg.HasField(field.name):
                sub = getattr(msg, field.name)
                settle(sub)
                if field.name in INSIDE.get(msg.DESCRIPTOR.full_name, []) and is_zero(sub):
                    msg.ClearField(field.name)
        elif is_proto2(msg.DESCRIPTOR) and field.label != FD.LABEL_REPEATED:
            if field.name in always:
                setattr(msg, field.name, getattr(msg, field.name))
            elif not getattr(msg, field.name):
                msg.ClearField(field.name)


def emit(name, wire):
    msg = MESSAGES[name].FromString(wire)
    want = canonical(msg)
    print(f'message {name}')
    print(f'wire {wire.hex()}')
    again = want.SerializeToString(deterministic=True)
    if again != wire:
        print(f'canonical {again.hex()}')
    print('text')
    print(text_format.MessageToString(want))  # ends in a newline, so this adds the empty line


def emit_refused(name, wire):
    try:
        MESSAGES[name].FromString(wire)
    except DecodeError:
        print(f'message {name}\nwire {wire.hex()}\nrefused\n')
        return
    sys.exit(f'{name} {wire.hex()} was meant to be refused')


def emit_filled(name, value, depth, member=None):
    msg = MESSAGES[name]()
    fill(msg, value, depth, member)
    emit(name, msg.SerializeToString(deterministic=True))


def every_message():
    print('# Every message type: empty, filled, extreme, and each member of its oneofs.\n')
    for name, cls in MESSAGES.items():
        emit(name, b'')
        if not cls.DESCRIPTOR.fields:
            continue
        emit_filled(name, lambda field, i: plain_value(field), 2)
        for turn in range(3):
            emit_filled(name, lambda field, i, turn=turn: extreme_value(field, i + turn), 1)
        for oneof in cls.DESCRIPTOR.oneofs:
            for field in oneof.fields:
                emit_filled(name, lambda f, i: plain_value(f), 2, field.name)


def named_cases():
    put, txn, range_ = (f'etcdserverpb.{m}' for m in ('PutRequest', 'TxnRequest', 'RangeRequest'))
    watch, log = 'etcdserverpb.WatchCreateRequest', 'etcdserverpb.InternalRaftRequest'
    state, entry = 'raftpb.ConfState', 'raftpb.Entry'
    accepted = [
        ('a transaction six deep', txn, nested_txn(6)),
        ('a transaction in the log', log, log_txn()),
        ('an operand that is zero is still there', 'etcdserverpb.Compare', b'\x20\x00'),
        ('an operand that is empty is still there', 'etcdserverpb.Compare', b'\x3a\x00'),
        ('of two operands the last wins', 'etcdserverpb.Compare', b'\x20\x05\x3a\x01v\x40\x07'),
        ('of two values the last wins, zero included', put, b'\x18\x07\x0a\x01a\x18\x00\x0a\x01b'),
        ('an operation in two pieces is merged', 'etcdserverpb.RequestOp',
         b'\x12\x03\x0a\x01k\x12\x03\x12\x01v'),
        ('another operation replaces it', 'etcdserverpb.RequestOp',
         b'\x12\x03\x0a\x01k\x1a\x00\x12\x03\x12\x01v'),
        ('a sub-message in two pieces is merged, its lists appended', log,
         b'\x32\x04\x0a\x02\x08\x01\x32\x08\x0a\x02\x08\x02\x12\x02\x12\x00'),
        ('the pieces of a list may stand apart', txn, b'\x0a\x00\x12\x00\x0a\x02\x08\x01\x12\x00'),
        ('numbers packed, alone and both', watch, b'\x2a\x02\x00\x01\x28\x01\x28\x00\x2a\x01\x01'),
        ('no numbers packed', watch, b'\x2a\x00'),
        ('packed where they usually are not', state, b'\x0a\x03\x01\xac\x02\x08\x05\x28\x00'),
        ('unknown fields of every wire type', put,
         b'\x78\x01\x79' + b'8' * 8 + b'\x7a\x03xyz\x7d4444\x0a\x01k\x92\x3f\x01\x00'),
        ('unknown groups, nested', put, b'\x7b\x08\x01\x83\x01\x12\x00\x84\x01\x7c\x0a\x01k'),
        ('a known field with another wire type is unknown', put,
         b'\x08\x01\x1a\x01x\x0d4444\x09' + b'8' * 8 + b'\x13\x08\x01\x14\x18\x05'),
        ('a list with another wire type is unknown', txn, b'\x08\x05\x15\x01\x02\x03\x04'),
        ('varints longer than they need to be', put,
         b'\x98\x80\x00\x87\x80\x80\x00\x8a\x00\x81\x00k'),
        ('a bool is anything but zero', put, b'\x20\x80\x02\x28\x82\x00'),
        ('an enum loses what is above 32 bits', range_, b'\x28\x81\x80\x80\x80\x70'),
        ('a hash loses what is above 32 bits', 'etcdserverpb.HashResponse',
         b'\x10\xff\xff\xff\xff\xff\x01'),
        ('lengths of one byte and of two', put,
         b'\x0a\x7f' + b'k' * 127 + b'\x12\x80\x01' + b'v' * 128),
        ('every byte there is', put, b'\x12\x80\x02' + bytes(range(256))),
        ('fields in any order', range_, b'\x68\x01\x18\x02\x12\x01e\x0a\x01k'),
        ('a hard state with a zero inside', 'raftpb.HardState', b'\x08\x02\x10\x00\x18\x05'),
        ('an entry as etcd 3.6 writes it', entry, b'\x08\x00\x10\x01\x18\x02'),
        ('a heartbeat of the link', 'raftpb.Message', b'\x08\x08'),
        ('a message as etcd 3.5 writes it', 'raftpb.Message',
         bytes.fromhex('0808100218032004280030004000'
                       '4a0a12080a0228001000180050005800') + b'\x62\x00\x68\x00'),
        ('the first records of a log', 'walpb.Record', b'\x08\x04\x10\x00'),
        ('the first snapshot in a log', 'walpb.Snapshot', b'\x08\x00\x10\x00'),
        ('the same without zeros', 'walpb.Snapshot', b''),
        ('strings of proto2 may be anything but for this', 'etcdserverpb.Request', b'\x12\x03PUT'),
    ]
    for title, name, wire in accepted:
        print(f'# {title}')
        emit(name, wire)
    refused = [
        ('a tag cut short', put, b'\x8a'),
        ('a length cut short', put, b'\x0a\x80'),
        ('a length past the end', put, b'\x0a\x02k'),
        ('a number cut short', put, b'\x18\x80\x80'),
        ('a number of eleven bytes', put, b'\x18' + b'\x80' * 10 + b'\x01'),
        ('field number zero', put, b'\x02\x00'),
        ('a wire type that is none', put, b'\x0e'),
        ('a group that never ends', put, b'\x7b\x08\x01'),
        ('a group that ends as another', put, b'\x7b\x84\x01'),
        ('fixed values cut short', put, b'\x7d333'),
        ('a sub-message past the end of its parent', txn, b'\x12\x03\x12\x05\x0a\x00'),
        ('packed numbers cut short', watch, b'\x2a\x02\x00\x80'),
        ('a string that is not UTF-8', 'etcdserverpb.AuthenticateRequest', b'\x0a\x02\xc3\x28'),
        ('a list of strings, one not UTF-8', 'etcdserverpb.Member', b'\x1a\x01a\x1a\x01\xff'),
        ('an overlong form is not UTF-8', 'etcdserverpb.AuthenticateRequest', b'\x0a\x02\xc0\x80'),
        ('half a surrogate is not UTF-8', 'etcdserverpb.RequestHeader', b'\x12\x03\xed\xa0\x80'),
    ]
    for title, name, wire in refused:
        print(f'# {title}')
        emit_refused(name, wire)


def nested_txn(depth):
    txn = innermost = MESSAGES['etcdserverpb.TxnRequest']()
    for level in range(depth):
        compare = innermost.compare.add(key=b'k%d' % level, result=-1, target=4, range_end=b'\0')
        compare.lease = -level
        innermost.failure.add().request_put.key = b'f'
        innermost = innermost.success.add().request_txn
    innermost.success.add().request_delete_range.range_end = b'z'
    innermost.success.add()
    return txn.SerializeToString(deterministic=True)


def log_txn():
    request = MESSAGES['etcdserverpb.InternalRaftRequest']()
    request.header.ID = 2**64 - 1
    request.header.username = 'root'
    request.txn.MergeFromString(nested_txn(2))
    return request.SerializeToString(deterministic=True)


if __name__ == '__main__':
    every_message()
    named_cases()
