// Where the code of this package is. Only CommonJS can tell in both forms of the package.
module.exports = __dirname;
