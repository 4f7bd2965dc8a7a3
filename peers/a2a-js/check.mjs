// Does with the official client what a client does: finds the card, sends, streams,
// gets, lists, cancels, subscribes, and asks for push. Arguments: the URL of an
// agent, and the binding to use. The agent does what the words of a message say.
// PEER_TOKEN is a bearer token to send with each call; PEER_CA is a PEM file of an authority to trust (NODE_EXTRA_CA_CERTS for fetch).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { credentials } from '@grpc/grpc-js';

const [agent, binding] = process.argv.slice(2);
const ca = process.env.PEER_CA;
const channel = ca ? credentials.createSsl(readFileSync(ca)) : credentials.createInsecure();
const token = process.env.PEER_TOKEN;
async function authorize(call) {
  if (token) call.options = { ...call.options, serviceParameters: { ...call.options?.serviceParameters, Authorization: `Bearer ${token}` } };
}
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory({ grpcChannelCredentials: channel })],
  preferredTransports: [binding],
  clientConfig: { interceptors: [{ before: authorize, after: async () => {} }] },
}));
const client = await factory.createFromUrl(`${agent}/.well-known/agent-card.json`, '');
assert.equal(client.transport.protocolName, binding);

// The enums of the generated code, by their numbers on the wire.
const USER = 1;
const AGENT = 2;
const [SUBMITTED, WORKING, COMPLETED, CANCELED, INPUT_REQUIRED] = [1, 2, 3, 5, 6];

let sent = 0;
function message(words, extra = {}, configuration = undefined) {
  sent += 1;
  return {
    tenant: '', metadata: undefined, configuration,
    message: {
      messageId: `js-${binding}-${sent}`, contextId: '', taskId: '', role: USER,
      parts: [{ content: { $case: 'text', value: words }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined, extensions: [], referenceTaskIds: [], ...extra,
    },
  };
}
const immediately = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately: true };
const textOf = (artifact) => artifact.parts.map((p) => p.content.value).join('|');
async function refusal(promise) {
  try {
    await promise;
  } catch (e) {
    return e;
  }
  return assert.fail('was not refused');
}

// Discovery.
const card = await client.getAgentCard();
assert.equal(card.name, 'Writer');
assert.equal(card.securitySchemes?.bearer !== undefined, Boolean(token));
assert.deepEqual(card.supportedInterfaces.map((i) => i.protocolBinding), ['JSONRPC', 'HTTP+JSON', 'GRPC']);

// Send, and a follow-up to a question.
const done = await client.sendMessage(message('hello'));
assert.equal(done.status.state, COMPLETED);
assert.equal(textOf(done.artifacts[0]), 'hello');
const asked = await client.sendMessage(message('ask which one?'));
assert.equal(asked.status.state, INPUT_REQUIRED);
assert.equal(asked.status.message.parts[0].content.value, 'which one?');
const answered = await client.sendMessage(message('this one', { taskId: asked.id }));
assert.equal(answered.id, asked.id);
assert.equal(answered.status.state, COMPLETED);

// A message instead of a task.
const reply = await client.sendMessage(message('reply hi'));
assert.equal(reply.role, AGENT);
assert.equal(reply.parts[0].content.value, 'hi');

// Stream.
const events = [];
for await (const event of client.sendMessageStream(message('write a b'))) events.push(event.payload);
assert.deepEqual(events.map((e) => e.$case), ['task', 'statusUpdate', 'artifactUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate']);
assert.equal(events[0].value.status.state, SUBMITTED);
assert.equal(events[1].value.status.state, WORKING);
assert.deepEqual([events[3].value.append, events[3].value.lastChunk], [true, true]);
assert.equal(events[5].value.status.state, COMPLETED);

// Get and list.
const got = await client.getTask({ tenant: '', id: done.id, historyLength: 0 });
assert.equal(got.id, done.id);
assert.equal(got.history.length, 0);
const list = await client.listTasks({ tenant: '', contextId: done.contextId, status: 0, pageToken: '', statusTimestampAfter: undefined, pageSize: 10 });
assert.deepEqual(list.tasks.map((t) => t.id), [done.id]);
assert.equal(list.totalSize, 1);

// Subscribe to a task that waits, and cancel it.
const waiting = await client.sendMessage(message('ask still there?', {}, immediately));
const seen = [];
for await (const event of client.resubscribeTask({ tenant: '', id: waiting.id })) {
  seen.push(event.payload);
  const status = event.payload.value.status;
  if (status?.state === INPUT_REQUIRED) {
    const cancelled = await client.cancelTask({ tenant: '', id: waiting.id, metadata: undefined });
    assert.equal(cancelled.status.state, CANCELED);
  }
}
assert.equal(seen[0].$case, 'task');
assert.equal(seen.at(-1).value.status.state, CANCELED);

// Refusals have their types.
assert.equal((await refusal(client.getTask({ tenant: '', id: 'nothing' }))).name.replace(/^(Rest|JsonRpc|Grpc)/, ''), 'TaskNotFoundError');
assert.equal((await refusal(client.cancelTask({ tenant: '', id: done.id, metadata: undefined }))).name.replace(/^(Rest|JsonRpc|Grpc)/, ''), 'TaskNotCancelableError');
assert.equal((await refusal(client.sendMessage(message('more', { taskId: done.id })))).name.replace(/^(Rest|JsonRpc|Grpc)/, ''), 'UnsupportedOperationError');

// Push, where the card has it.
const config = { tenant: '', id: 'p1', taskId: asked.id, url: 'https://push.example.com/hook', token: 'secret', authentication: undefined };
if (card.capabilities.pushNotifications) {
  const kept = await client.createTaskPushNotificationConfig(config);
  assert.equal(kept.id, 'p1');
  assert.notEqual(kept.token, 'secret');
  const all = await client.listTaskPushNotificationConfig({ tenant: '', taskId: asked.id, pageSize: 0, pageToken: '' });
  assert.deepEqual(all.configs.map((c) => c.id), ['p1']);
  await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: asked.id, id: 'p1' });
} else {
  assert.equal((await refusal(client.createTaskPushNotificationConfig(config))).name.replace(/^(Rest|JsonRpc|Grpc)/, ''), 'PushNotificationNotSupportedError');
}
console.log(`${binding}: ok`);
process.exit(0);
