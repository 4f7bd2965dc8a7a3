// Package conversation prepares requests to models: it finds what they refer to, checks it, and
// makes the digests by which equal requests are known, whatever of them was said before.
//
// Owns: nothing of a run; it reads what was.
// Keeps: what is prepared refers to records alone, so that it is resolved for ever by them; its
// cost is that of what is new in it, not of what was said before.
package conversation
