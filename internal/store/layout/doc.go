// Package layout says how things lie in the store: the kinds of keys and the bytes of
// each, which rows an entry makes, and how one row is read with what is wrong with it
// named. FORMAT.md beside the store tells the same in a page. The store and its rooms
// call it; it imports the machine's types, the codec and Badger's transactions, and
// writes nothing. Its invariant: what an entry makes is a function of the entry and the
// state before it alone, so that it can be made again and compared.
package layout
