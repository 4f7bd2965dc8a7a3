// Package play is what end-to-end tests do to sidecars and how they judge them, whichever
// processes these are: scripted runs that must leave the records of undisturbed ones
// ([Driver], [CompareAll]), and calls that race and must have an order ([Linear]).
package play
