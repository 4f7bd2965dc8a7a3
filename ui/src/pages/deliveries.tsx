import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get, post } from "../api/client";
import { textOf } from "../api/document";
import { asProblem } from "../api/problem";
import type { DeadLetter, Delivery, DeliveryRef, Webhook } from "../api/types";
import { ConfirmButton } from "../parts/confirm";
import { ago, bytes, number, pretty, when } from "../parts/format";
import { Empty, Failure, Loading } from "../parts/notices";
import { RunId } from "../parts/run_id";
import { useNow } from "../parts/use_now";
import { useTitle } from "../parts/use_title";
import { Text } from "../parts/value";

const EVERY_MS = 5_000;
const DEAD_LETTERS = 100;
const RECEIVERS = 200;

/** Shows webhooks and pushes, their state, and their dead letters. */
export function DeliveriesPage() {
  useTitle("Deliveries");
  const now = useNow(1_000);
  const queries = useQueryClient();
  const hooks = useWebhooks();
  const pushes = usePushes();
  const retry = () => {
    void queries.invalidateQueries({ queryKey: ["webhooks"] });
    void queries.invalidateQueries({ queryKey: ["pushes"] });
  };
  const webhooks = hooks.data?.webhooks ?? [];
  const troubled = pushes.data?.deliveries ?? [];
  return (
    <main id="main" className="deliveries-page">
      <div className="page-head">
        <h1>Deliveries</h1>
      </div>
      {hooks.error ? (
        <Failure problem={asProblem(hooks.error)} onRetry={() => void hooks.refetch()} />
      ) : null}
      {hooks.isPending ? <Loading what="Reading webhooks" /> : null}
      <section className="card" aria-label="Webhooks">
        <h2>Webhooks</h2>
        {hooks.data && webhooks.length === 0 ? (
          <Empty title="No webhook">
            <code>POST /v1/webhooks/my-hook</code> with a URL and a secret makes one.
          </Empty>
        ) : null}
        <ul className="receivers">
          {webhooks.map((hook) => (
            <Hook key={hook.webhookId} hook={hook} now={now} onChange={retry} />
          ))}
        </ul>
      </section>
      <section className="card" aria-label="Push notifications">
        <h2>Push notifications with errors</h2>
        {pushes.error ? <Failure problem={asProblem(pushes.error)} /> : null}
        {pushes.data && troubled.length === 0 ? (
          <p className="muted">None. All due A2A push notifications were delivered.</p>
        ) : null}
        <ul className="receivers">
          {troubled.map((d) => (
            <Push
              key={`${d.deliveryRef.runId} ${d.deliveryRef.id}`}
              push={d}
              now={now}
              onChange={retry}
            />
          ))}
        </ul>
        {pushes.data?.nextPageToken ? <p className="muted">More follow.</p> : null}
      </section>
    </main>
  );
}

const useWebhooks = () =>
  useQuery({
    queryKey: ["webhooks"],
    queryFn: ({ signal }) => get<{ webhooks?: Webhook[] }>("/v1/webhooks", {}, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
  });

/** Reads the pushes that fail. */
function usePushes() {
  return useQuery({
    queryKey: ["pushes"],
    queryFn: ({ signal }) =>
      get<{ deliveries?: Delivery[]; nextPageToken?: string }>(
        "/v1/deliveries",
        { kind: "DELIVERY_KIND_PUSH", troubled: true, pageSize: RECEIVERS },
        signal,
      ),
    refetchInterval: EVERY_MS,
    staleTime: 0,
  });
}

function Push({ push, now, onChange }: { push: Delivery; now: number; onChange: () => void }) {
  return (
    <li>
      <div className="worker-head">
        <h3 className="mono">{push.deliveryRef.id}</h3>
        <Link href={`/runs/${push.deliveryRef.runId}`}>
          <RunId id={push.deliveryRef.runId ?? ""} />
        </Link>
      </div>
      <ConsumerStatus of={push} now={now} />
      <DeadLetters
        receiver={push.deliveryRef}
        count={Number(push.deadLetters ?? 0)}
        onChange={onChange}
      />
    </li>
  );
}

function Hook({ hook, now, onChange }: { hook: Webhook; now: number; onChange: () => void }) {
  const id = hook.webhookId;
  const kinds = (hook.kinds ?? []).map((k) => k.replace("RECORD_KIND_", "").toLowerCase());
  return (
    <li>
      <div className="worker-head">
        <h3 className="mono">{id}</h3>
        <span className="muted">
          {hook.owner ? `of ${hook.owner}, ` : ""}since {when(hook.createdAt)}
        </span>
        <span className="worker-seen">
          <ConfirmButton
            label="Delete webhook"
            small
            danger
            title={`Delete webhook ${id}`}
            verb="Delete it"
            path={`/v1/webhooks/${encodeURIComponent(id)}:delete`}
            body={{}}
            onDone={onChange}
          >
            <p>
              Nothing more is sent to <b>{hook.url}</b>, and its dead letters are gone with it.
            </p>
          </ConfirmButton>
        </span>
      </div>
      <ConsumerStatus of={hook} now={now} />
      <p className="muted">
        {kinds.length > 0 ? kinds.join(", ") : "transitions and ends"} of{" "}
        {hook.filter?.pack || "every pack"}
      </p>
      <DeadLetters
        receiver={{ kind: "DELIVERY_KIND_WEBHOOK", id }}
        count={Number(hook.deadLetters ?? 0)}
        onChange={onChange}
      />
    </li>
  );
}

type Fares = Pick<Delivery, "url" | "attempts" | "nextAt" | "lastError" | "deadLetters">;

function ConsumerStatus({ of, now }: { of: Fares; now: number }) {
  const tries = of.attempts ?? 0;
  const due = of.nextAt ? Date.parse(of.nextAt) - now : 0;
  return (
    <dl className="facts">
      <div>
        <dt>To</dt>
        <dd className="mono">{of.url}</dd>
      </div>
      <div>
        <dt>Status</dt>
        <dd>
          {tries === 0 ? (
            <span className="good">no errors</span>
          ) : (
            <span className="bad">
              {number(tries)} {tries === 1 ? "attempt" : "attempts"} failed
              {due > 0 ? `, next in ${Math.ceil(due / 1000)} s` : ", next now"}
            </span>
          )}
        </dd>
      </div>
      {of.lastError ? (
        <div>
          <dt>Last error</dt>
          <dd>{of.lastError}</dd>
        </div>
      ) : null}
    </dl>
  );
}

interface DeadLettersProps {
  receiver: DeliveryRef;
  /** Dead letters made so far; some may have been deleted. */
  count: number;
  onChange: () => void;
}

function DeadLetters({ receiver, count, onChange }: DeadLettersProps) {
  const [open, setOpen] = useState(false);
  const queries = useQueryClient();
  const key = ["letters", receiver.kind, receiver.runId, receiver.id];
  const request = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      get<{ deadLetters?: DeadLetter[]; nextPageToken?: string }>(
        "/v1/deliveries:dead",
        {
          "deliveryRef.kind": receiver.kind,
          "deliveryRef.runId": receiver.runId,
          "deliveryRef.id": receiver.id,
          includeBody: true,
          pageSize: DEAD_LETTERS,
        },
        signal,
      ),
    enabled: open,
    staleTime: 0,
  });
  if (count === 0) {
    return null;
  }
  const changed = () => {
    void queries.invalidateQueries({ queryKey: key });
    onChange();
  };
  const letters = request.data?.deadLetters ?? [];
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Dead letters ({number(count)} so far)</summary>
      {request.error ? <Failure problem={asProblem(request.error)} /> : null}
      {request.data && letters.length === 0 ? (
        <p className="muted">All were sent again or deleted.</p>
      ) : null}
      <ul className="letters">
        {letters.map((letter) => (
          <Letter key={letter.n} receiver={receiver} letter={letter} onChange={changed} />
        ))}
      </ul>
      {request.data?.nextPageToken ? <p className="muted">More dead letters follow.</p> : null}
    </details>
  );
}

interface LetterProps {
  receiver: DeliveryRef;
  letter: DeadLetter;
  onChange: () => void;
}

function Letter({ receiver, letter, onChange }: LetterProps) {
  const [state, setState] = useState<{ busy: boolean; said: string }>({ busy: false, said: "" });
  const resend = async () => {
    setState({ busy: true, said: "" });
    try {
      await post("/v1/deliveries:resend", { deliveryRef: receiver, n: letter.n });
      onChange();
    } catch (error) {
      setState({ busy: false, said: asProblem(error).message });
    }
  };
  const body = textOf(letter.body);
  return (
    <li>
      <div className="worker-head">
        <b>#{letter.n}</b>
        <span className="muted" title={when(letter.at)}>
          given up {ago(letter.at, Date.now())}, {bytes(Number(letter.size ?? 0))}
        </span>
        <span className="worker-seen">
          <button
            type="button"
            className="button small"
            disabled={state.busy}
            onClick={() => void resend()}
          >
            {state.busy ? "Sending…" : "Send again"}
            <span className="hidden"> letter {letter.n}</span>
          </button>{" "}
          <ConfirmButton
            label="Delete letter"
            small
            danger
            title={`Delete dead letter ${letter.n}`}
            verb="Delete it"
            path="/v1/deliveries:discard"
            body={{ deliveryRef: receiver, n: letter.n }}
            onDone={onChange}
          >
            <p>The receiver will never get it. The record stays in the journal.</p>
          </ConfirmButton>
        </span>
      </div>
      <p className="field-problem">{letter.error}</p>
      {state.said ? (
        <p className="field-problem" role="alert">
          {state.said}
        </p>
      ) : null}
      {body ? (
        <details>
          <summary>Body of the delivery</summary>
          <Text text={pretty(body)} label={`Letter ${letter.n}`} />
        </details>
      ) : null}
    </li>
  );
}
