import type { Body } from "../api/types";
import { Fact } from "./detail_row";
import { roundWord, usageWords } from "./format";

/** What a record of a call of a model says besides what every step's says. */
export function ModelFacts({ body }: { body: Body }) {
  const { answer, bound } = body;
  return (
    <>
      <Fact name="Model">
        {body.tool ?? ""}
        {body.step ? ` #${body.step}` : ""}
        {answer?.model && answer.model !== body.tool ? `, answered by ${answer.model}` : ""}
      </Fact>
      {body.key ? <Fact name="Round">{roundWord(body.key)}</Fact> : null}
      {bound ? <Fact name="At most">{usageWords(bound, true)}</Fact> : null}
      {answer?.finishReason ? <Fact name="Finished">{answer.finishReason}</Fact> : null}
      {answer?.responseId || body.responseId ? (
        <Fact name="Response">
          <span className="mono">{answer?.responseId || body.responseId}</span>
        </Fact>
      ) : null}
      {body.requestChanged ? (
        <Fact name="Changed">
          {body.key
            ? "an earlier attempt asked something else"
            : "a later execution asked something else; the recorded answer counts"}
        </Fact>
      ) : null}
    </>
  );
}
