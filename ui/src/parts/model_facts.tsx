import type { Body } from "../api/types";
import { DetailRow } from "./detail_row";
import { roundWord, usageWords } from "./format";

/** Shows the properties of a MODEL step's record that other steps lack. */
export function ModelFacts({ body }: { body: Body }) {
  const { answer, bound } = body;
  return (
    <>
      <DetailRow name="Model">
        {body.tool ?? ""}
        {body.step ? ` #${body.step}` : ""}
        {answer?.model && answer.model !== body.tool ? `, answered by ${answer.model}` : ""}
      </DetailRow>
      {body.key ? <DetailRow name="Round">{roundWord(body.key)}</DetailRow> : null}
      {bound ? <DetailRow name="At most">{usageWords(bound, true)}</DetailRow> : null}
      {answer?.finishReason ? <DetailRow name="Finished">{answer.finishReason}</DetailRow> : null}
      {answer?.responseId || body.responseId ? (
        <DetailRow name="Response">
          <span className="mono">{answer?.responseId || body.responseId}</span>
        </DetailRow>
      ) : null}
      {body.requestChanged ? (
        <DetailRow name="Changed">
          {body.key
            ? "an earlier attempt had another request"
            : "a later execution had another request; the recorded answer counts"}
        </DetailRow>
      ) : null}
    </>
  );
}
