package delivery

// Sign is sign for the tests of this package.
var Sign = sign
