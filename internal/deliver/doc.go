// Package deliver sends the effects that leave the process after their commit:
// delegations to agents, and the word that one is no longer wanted.
//
// What there is to send stands in the store. A crash at any point loses nothing:
// the rows are found again, and a message that is sent again is the same message,
// which its receiver takes once.
package deliver
