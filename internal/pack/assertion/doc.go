// Package assertion holds the checks that packs name as the types of validators: banned words, lengths, patterns, JSON, calls of tools,
// cost and latency. A check reads only the [Turn] that it is given, so it can run in the sidecar, for every executor. The names, the
// parameters and their older spellings are those of PromptKit's guardrails.
//
// Checks take time in proportion to the texts and to their own size. Both are bounded: see [MaxPatterns].
package assertion
