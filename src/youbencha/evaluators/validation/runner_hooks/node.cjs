// Makes vitest, jest and mocha write a report for us. Every Node.js that a test command starts loads this file first.
// $YOUBENCHA_TEST_REPORT is the beginning of the report's path.
"use strict";
const path = require("node:path");
const { isMainThread } = require("node:worker_threads");

const REPORTERS = [
  [/[\\/]vitest[\\/](?:vitest\.mjs|dist[\\/]cli\.js)$/, (file) => ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`]],
  [/[\\/]jest(?:-cli)?[\\/]bin[\\/]jest\.js$/, (file) => ["--json", `--outputFile=${file}`]],
  [/[\\/]mocha[\\/]bin[\\/]_?mocha(?:\.js)?$/, () => ["--reporter", path.join(__dirname, "mocha.cjs")]],
];

const report = process.env.YOUBENCHA_TEST_REPORT;
if (isMainThread && report && process.argv[1]) {
  let program = process.argv[1];
  try {
    program = require("node:fs").realpathSync(program);
  } catch {}
  for (const [pattern, options] of REPORTERS) {
    if (pattern.test(program)) {
      const end = process.argv.indexOf("--");
      process.argv.splice(end < 0 ? process.argv.length : end, 0, ...options(`${report}node-${process.pid}.json`));
    }
  }
}
