// A session with npm's etcd3, printed as it goes.
//
// It is run against real etcd and against us, and the two transcripts must be equal; so it prints
// nothing that may differ (ids, sizes, times). How it is called is told in sessions_test.c.
'use strict';
const fs = require('fs');
const readline = require('readline');
const { Etcd3, Range } = require('etcd3');
const { ConstantBackoff, handleAll, noop, retry } = require('cockatiel');

const [url, ca, certificate, key] = process.argv.slice(2);
const stdin = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const patience = 40_000;

function say(...words) {
  fs.writeSync(1, words.join(' ') + '\n');
}

// Has the server killed or started, and waits until that is done.
async function ask(what) {
  say(':' + what);
  await stdin.next();
}

async function refused(what, act) {
  try {
    await act();
    say(what, 'was not refused');
  } catch (e) {
    say(what + ':', e.constructor.name, e.message.replace(/[0-9]{15,}/g, 'ID'));
  }
}

function connect(options = {}) {
  const credentials = ca && {
    rootCertificate: fs.readFileSync(ca),
    certChain: fs.readFileSync(certificate),
    privateKey: fs.readFileSync(key),
  };
  return new Etcd3({
    hosts: url,
    credentials,
    grpcOptions: { 'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 500 },
    // As soon as the server is back it is tried: by itself the library lets many seconds pass.
    faultHandling: { host: () => noop, watchBackoff: new ConstantBackoff(100) },
    ...options,
  });
}

function show(kv) {
  const lease = kv.lease !== '0' ? ' leased' : '';
  return `${kv.key}=${kv.value} created ${kv.create_revision} modified ${kv.mod_revision} version ${kv.version}${lease}`;
}

// Events of an emitter as they come, to be waited for one by one.
class Listener {
  constructor(emitter, ...names) {
    this.waiting = [];
    this.come = [];
    for (const name of names) {
      emitter.on(name, (...values) => {
        const taker = this.waiting.shift();
        if (taker) taker([name, ...values]);
        else this.come.push([name, ...values]);
      });
    }
  }
  next() {
    if (this.come.length > 0) return Promise.resolve(this.come.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('nothing came')), patience);
      this.waiting.push(value => {
        clearTimeout(timer);
        resolve(value);
      });
    });
  }
}

async function keys(c) {
  say('put at', (await c.put('a').value('1')).header.revision);
  say('put, before it', show(await c.put('a').value('2').getPrevious()));
  await c.put(Buffer.from([0, 255])).value(Buffer.from([254, 0]));
  say('bytes', (await c.get(Buffer.from([0, 255])).buffer()).toString('hex'));
  say('touched at', (await c.put('a').touch()).header.revision);
  say('got', await c.get('a'), await c.get('a').number(), await c.get('nothing'));
  say('there', await c.get('a').exists(), await c.get('nothing').exists());
  await c.put('j').value(JSON.stringify({ x: [1, 2] }));
  say('json', JSON.stringify(await c.get('j').json()));
  const response = await c.get('a').exec();
  say('all of it', response.count, response.more, response.header.revision, response.kvs.map(show));

  for (let i = 0; i < 6; i++) await c.put(`list/${i}`).value((i * 5) % 6);
  const list = () => c.getAll().prefix('list/');
  say('strings', JSON.stringify(await list().strings()));
  say('numbers', JSON.stringify(await list().numbers()));
  say('keys', await list().keys());
  say('count', await list().count());
  say('limit', await list().limit(2).keys());
  say('by value', await list().sort('Value', 'Descend').keys());
  say('by revision', await list().sort('Mod', 'Ascend').limit(3).keys());
  say('range', await c.getAll().inRange({ start: 'list/2', end: 'list/4' }).keys());
  say('everything', await c.getAll().count());
  const at = Number(response.header.revision);
  say('past', await list().revision(at + 2).keys());
  say('modified', await list().minModRevision(at + 5).keys());
  say('created', await list().maxCreateRevision(at + 2).keys());
  say('serializable', await c.get('a').serializable(true));
  await refused('the future', () => c.get('a').revision(at + 1000));
  await refused('an empty key', () => c.put('').value('x'));
  await refused('no such lease', () => c.put('a').value('x').lease(4711));
  await refused('too large', () => c.put('a').value('x'.repeat(1600 << 10)));

  say('deleted', (await c.delete().key('a')).deleted, (await c.delete().key('a')).deleted);
  say('deleted', (await c.delete().key('list/0').getPrevious()).map(show));
  say('deleted', (await c.delete().inRange(Range.from({ start: 'list/1', end: 'list/3' }))).deleted);
  say('deleted', (await c.delete().prefix('list/')).deleted);
}

async function transactions(c) {
  await c.put('t').value('1');
  for (const value of ['1', '2']) {
    const txn = await c
      .if('t', 'Value', '==', value)
      .and('t', 'Version', '>', 0)
      .and('none', 'Create', '==', 0)
      .then(c.put('t/yes').value(value), c.get('t'), c.delete().key('t/no'))
      .else(c.put('t/no').value(value), c.getAll().prefix('t'))
      .commit();
    const responses = txn.responses.map(r => r.response + (r.response_range ? r.response_range.count : ''));
    say('transaction', txn.succeeded, txn.header.revision, responses);
  }
  await refused('twice', () => c.if('t', 'Version', '>', 0).then(c.put('t').value(1), c.put('t').value(2)).commit());
}

async function memory(c) {
  // At one revision: the strictest level wants no key written to be newer than the oldest one read.
  await c.if('stm/a', 'Create', '==', 0).then(c.put('stm/a').value(100), c.put('stm/b').value(100)).commit();
  const transfer = isolation =>
    c.stm({ isolation, retries: 1000 }).transact(async tx => {
      const a = await tx.get('stm/a').number();
      const b = await tx.get('stm/b').number();
      await tx.put('stm/a').value(a - 1);
      await tx.put('stm/b').value(b + 1);
    });
  for (const isolation of [0, 1, 2]) {
    await Promise.all(Array.from({ length: 6 }, () => transfer(isolation)));
    say('after transfers', await c.get('stm/a').number(), await c.get('stm/b').number());
  }
  await refused('given up', () =>
    c.stm({ retries: 0 }).transact(async tx => {
      await tx.get('stm/a');
      await c.put('stm/a').value('meanwhile');
      await tx.put('stm/a').value('x');
    })
  );
}

async function watches(c) {
  const start = Number((await c.put('w/0').value('before')).header.revision) + 1;
  const live = await c.watch().prefix('w/').withPreviousKV().create();
  const events = new Listener(live, 'put', 'delete', 'end');
  await c.put('w/1').value('one');
  await c.put('w/1').value('two');
  await c.delete().key('w/1');
  await c.put('w/2').value('three');
  for (let i = 0; i < 4; i++) {
    const [kind, kv, before] = await events.next();
    say('live', kind, show(kv), before ? `before ${show(before)}` : '');
  }
  const one = await c.watch().key('w/1').startRevision(String(start)).create();
  const past = new Listener(one, 'put', 'delete');
  for (let i = 0; i < 3; i++) {
    const [kind, kv] = await past.next();
    say('past', kind, show(kv));
  }
  const deletions = await c.watch().prefix('w/').only('delete').startRevision(String(start)).create();
  const only = new Listener(deletions, 'put', 'delete');
  const [kind, kv] = await only.next();
  say('only', kind, `${kv.key}`);

  // Three watchers on one stream: one goes, the others stay.
  await one.cancel();
  say('one is cancelled');
  await c.delete().key('w/2');
  say('live', (await events.next())[0]);
  say('only', (await only.next())[0]);
  const progress = new Listener(live, 'data');
  for (;;) {
    const [, response] = await progress.next();
    if (response.events.length === 0) {
      say('progress at', response.header.revision);
      break;
    }
  }
  await live.cancel();
  say('ended', (await events.next())[0]);
  await deletions.cancel();

  const again = await c.watch().key('w/again').create();
  const more = new Listener(again, 'put');
  await c.put('w/again').value('x');
  say('a new stream', (await more.next())[0]);
  await again.cancel();
}

async function compaction(c) {
  const first = Number((await c.put('c').value('1')).header.revision);
  await c.put('c').value('2');
  await c.put('c').value('3');
  await c.kv.compact({ revision: first + 1, physical: true });
  await refused('compact again', () => c.kv.compact({ revision: first }));
  await refused('what is gone', () => c.get('c').revision(first));
  say('what is left', await c.get('c').revision(first + 1));
  const gone = c.watch().key('c').startRevision(String(first)).watcher();
  const answers = new Listener(gone, 'error', 'put');
  const [name, e] = await answers.next();
  say('watch what is gone:', name, e.constructor.name, e.message);
}

async function leases(c) {
  const lease = c.lease(600, { autoKeepAlive: false });
  const id = await lease.grant();
  await lease.put('l/1').value('x');
  await c.put('l/2').value('x').lease(id);
  say('leased', show((await c.get('l/1').exec()).kvs[0]));
  const ttl = await c.leaseClient.leaseTimeToLive({ ID: id, keys: true });
  say('time to live of', ttl.grantedTTL, Number(ttl.TTL) > 500, ttl.keys.map(String).sort());
  say('leases', (await c.leaseClient.leaseLeases()).leases.length);
  say('kept alive', (await lease.keepaliveOnce()).TTL);
  await lease.revoke();
  say('revoked', lease.revoked(), await c.getAll().prefix('l/').count());
  await refused('kept alive again', () => lease.keepaliveOnce());

  const kept = c.lease(6);
  const beats = new Listener(kept, 'keepaliveSucceeded', 'lost');
  await kept.put('l/kept').value('x');
  say('beats', (await beats.next())[0], (await beats.next())[0]);
  const keptId = await kept.grant();
  await c.leaseClient.leaseRevoke({ ID: keptId });
  let [what, e] = await beats.next();
  while (what !== 'lost') [what, e] = await beats.next();
  say('lost:', e.constructor.name, await c.get('l/kept'));

  const short = c.lease(4, { autoKeepAlive: false }); // long enough for a machine that is busy
  const gone = await c.watch().key('l/short').create();
  const events = new Listener(gone, 'delete');
  await short.put('l/short').value('x');
  say('expired:', (await events.next())[0]);
  await gone.cancel();
}

async function locks(c) {
  const first = c.lock('door').ttl(30);
  await first.acquire();
  await refused('locked', () => c.lock('door').acquire());
  await first.release();
  say('done inside:', await c.lock('door').do(() => 'yes'));
  await c.lock('door').acquire().then(lock => lock.release());
  say('left behind', await c.getAll().prefix('door').count());
}

async function elections(c) {
  const election = c.election('president', 30);
  say('leader', await election.leader());
  const observer = await election.observe();
  const changes = new Listener(observer, 'change');
  const one = election.campaign('one');
  await one.wait();
  say('observed', (await changes.next())[1], 'leader', await election.leader());
  await one.proclaim('two');
  say('observed', (await changes.next())[1], 'leader', await election.leader());
  const other = election.campaign('three');
  const elected = new Listener(other, 'elected', 'error');
  await other.getCampaignKey();
  await one.resign();
  say('the other is', (await elected.next())[0]);
  for (let name; name !== 'three'; ) name = (await changes.next())[1];
  say('leader', await election.leader());
  await observer.cancel();
  await other.resign();
  say('leader', await election.leader());
}

async function spaces(c) {
  const space = c.namespace('space/');
  await space.put('k').value('v');
  const watcher = await space.watch().prefix('').create();
  const events = new Listener(watcher, 'put');
  await space.put('k').value('w');
  say('inside', await space.get('k'), 'outside', await c.get('space/k'), `${(await events.next())[1].key}`);
  await watcher.cancel();
}

async function member(c) {
  const { members } = await c.cluster.memberList({});
  say('members', members.map(m => m.name), members[0].clientURLs.length, members[0].peerURLs.length);
  const status = await c.maintenance.status({});
  say('status', status.version, status.leader === status.header.member_id);
  say('alarms', (await c.maintenance.alarm({ action: 'GET' })).alarms.length);
  await c.maintenance.defragment({});
  const snapshot = await c.maintenance.snapshot({});
  let bytes = 0;
  let rest;
  await new Promise((resolve, reject) =>
    snapshot
      .on('data', part => {
        bytes += part.blob.length;
        rest = part.remaining_bytes;
      })
      .on('end', resolve)
      .on('error', reject)
  );
  say('snapshot, whole', bytes % 512 === 32, 'left', rest);
}

async function users(c) {
  const part = await c.role('part').create();
  await part.grant([
    { permission: 'Readwrite', range: Range.prefix('p/') },
    { permission: 'Read', key: 'seen' },
  ]);
  await refused('twice', () => c.role('part').create());
  for (const p of await part.permissions()) say('permission', p.permission, `${p.range.start} ${p.range.end}`);
  await c.role('root').create();
  const root = await c.user('root').create('root-pw');
  await root.addRole('root');
  const carol = await c.user('carol').create('carol-pw');
  await carol.addRole(part);
  await refused('a user twice', () => c.user('carol').create('x'));
  await refused('no such role', () => carol.addRole('nothing'));
  say('users', (await c.getUsers()).map(u => u.name), 'roles', (await c.getRoles()).map(r => r.name));
  say('of carol', (await carol.roles()).map(r => r.name));
  await c.auth.authEnable({});

  const as = (username, password) => connect({ auth: { username, password } });
  const wrong = as('carol', 'wrong');
  await refused('a wrong password', () => wrong.get('p/1'));
  wrong.close();
  await refused('without a token', () => c.put('q').value('x'));
  const limited = as('carol', 'carol-pw');
  await limited.put('p/1').value('x');
  say('hers', await limited.get('p/1'));
  await refused('elsewhere', () => limited.put('q').value('x'));
  await refused('only to be seen', () => limited.put('seen').value('x'));
  say('seen', await limited.get('seen'));
  await refused('a wider range', () => limited.getAll().prefix('p'));
  await refused('administration', () => limited.user('friend').create('x'));
  const watcher = await limited.watch().prefix('p/').create();
  const events = new Listener(watcher, 'put');
  const all = as('root', 'root-pw');
  await all.put('p/2').value('by root');
  say('watched', `${(await events.next())[1].key}`);
  await watcher.cancel();
  const elsewhere = limited.watch().key('q').watcher();
  const [name, e] = await new Listener(elsewhere, 'error', 'connected').next();
  say('watch elsewhere:', name, e.constructor.name, e.message);
  await all.user('carol').removeRole('part');
  await refused('no longer hers', () => limited.get('p/1'));
  await all.user('carol').delete();
  await all.auth.authDisable({});
  limited.close();
  all.close();
  await c.put('q').value('anybody');
  say('disabled', await c.get('q'));
}

// The server is killed and comes back: watches and leases of the library go on by themselves.
async function restart(c) {
  const lease = c.lease(30);
  await lease.put('k/leased').value('x');
  const watcher = await c.watch().prefix('k/').create();
  const events = new Listener(watcher, 'put');
  const away = new Listener(watcher, 'disconnected');
  const back = new Listener(watcher, 'connected');
  await c.put('k/1').value('before');
  say('seen', `${(await events.next())[1].key}`);
  await ask('kill');
  say('the watch is', (await away.next())[0]);
  say('while it is away:', await c.put('k/2').value('x').then(() => 'put', e => e.constructor.name));
  await ask('start');
  say('the watch is', (await back.next())[0]);
  const patiently = retry(handleAll, { maxAttempts: 100, backoff: new ConstantBackoff(100) });
  await patiently.execute(() => c.put('k/3').value('after'));
  say('seen', `${(await events.next())[1].key}`);
  say('kept', await c.getAll().prefix('k/').keys());
  say('kept alive', (await lease.keepaliveOnce()).TTL);
  await lease.revoke();
  await watcher.cancel();
}

async function main() {
  const c = connect();
  const parts = { keys, transactions, memory, watches, compaction, leases, locks, elections, spaces, member, users, restart };
  for (const [name, part] of Object.entries(parts)) {
    say('---', name);
    await part(c);
  }
  c.close();
  await refused('after close', () => c.get('a'));
  say('done');
}

main().then(
  () => process.exit(0),
  e => {
    say('failed:', e.stack);
    process.exit(1);
  }
);
