/** A pack whose only tool a person has to approve. */
export const REFUNDS = JSON.stringify({
  id: "refunds",
  name: "Refunds",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: { a: { id: "a", name: "A", version: "1.0.0", system_template: "x", tools: ["refund"] } },
  tools: {
    refund: {
      name: "refund",
      description: "Pays back.",
      parameters: { type: "object", properties: { order: { type: "string" } } },
    },
  },
  workflow: {
    version: 1,
    entry: "s",
    states: { s: { prompt_task: "a", terminal: true } },
    engine: { x_pawl: { tools: { refund: { approve: "always" } } } },
  },
});
