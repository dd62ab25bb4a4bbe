// Leaves out the files in $YOUBENCHA_LEFT_OUT. Until version 29, jest expects an object for each path that stays.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

module.exports = (paths) => {
  const leftOut = new Set(JSON.parse(fs.readFileSync(process.env.YOUBENCHA_LEFT_OUT, "utf8")));
  const jest = path.join(fs.realpathSync(process.argv[1]), "..", "..", "package.json");
  const filtered = paths.filter((file) => !leftOut.has(file));
  return { filtered: parseInt(require(jest).version, 10) < 30 ? filtered.map((test) => ({ test })) : filtered };
};
