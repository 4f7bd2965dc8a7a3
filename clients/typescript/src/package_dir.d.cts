/** The directory of this file. */
declare const directory: string;

export = directory;
