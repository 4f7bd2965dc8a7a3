// Package play drives sidecars in end-to-end tests and judges what they did, for every kind of
// process.
//
// Its scripted runs must leave the same records as undisturbed runs ([Driver], [CompareAll]). Its
// racing calls must have an order that explains their answers ([Linear]).
package play
