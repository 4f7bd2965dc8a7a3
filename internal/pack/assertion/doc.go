// Package assertion contains the checks that packs use as types of validators and evals: banned words, lengths, patterns, JSON, calls of
// tools, cost and latency. A check reads only the [Turn] that is passed to it. Therefore the sidecar can run it for every executor. The
// names, the parameters and their older spellings are those of PromptKit's guardrails and evals.
//
// The time of a check is proportional to the size of the texts and to its own size. Both are limited: see [MaxPatterns].
package assertion
