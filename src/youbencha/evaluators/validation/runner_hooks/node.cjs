// Makes vitest, jest and mocha write a report for us, and lets them and `node --test` leave out files in which no test
// counts. Every Node.js that a test command starts loads this file first.
// $YOUBENCHA_TEST_REPORT is the beginning of the report's path; $YOUBENCHA_LEFT_OUT is a JSON file with absolute paths.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { isMainThread } = require("node:worker_threads");

// A glob that matches a path literally. mocha takes a backslash for a separator, so that cannot escape anything.
const literal = (file) => file.replace(/[[*?{(]/g, "[$&]");

function spellings(file) {
  const relative = path.relative("", file);
  return [file, relative, `./${relative}`];
}

// `since`: the first major version that can leave files out.
const RUNNERS = [
  {
    program: /[\\/]vitest[\\/](?:vitest\.mjs|dist[\\/]cli\.js)$/,
    reporting: (file) => ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`],
    since: 3,
    leavingOut: (files) => files.flatMap((file) => ["--exclude", literal(file)]),
  },
  {
    program: /[\\/]jest(?:-cli)?[\\/]bin[\\/]jest\.js$/,
    reporting: (file) => ["--json", `--outputFile=${file}`],
    since: 24,
    leavingOut: () => [`--filter=${path.join(__dirname, "jest-filter.cjs")}`],
  },
  {
    program: /[\\/]mocha[\\/]bin[\\/]_?mocha(?:\.js)?$/,
    reporting: () => ["--reporter", path.join(__dirname, "mocha.cjs")],
    since: 7,
    // It compares a file as it is written on the command line.
    leavingOut: (files) => files.flatMap((file) => spellings(file).flatMap((name) => ["--ignore", literal(name)])),
  },
];

function majorVersion(program) {
  for (let directory = path.dirname(program); directory !== path.dirname(directory); directory = path.dirname(directory)) {
    try {
      return parseInt(JSON.parse(fs.readFileSync(path.join(directory, "package.json"), "utf8")).version, 10);
    } catch {}
  }
  return 0;
}

function main(report, leftOut) {
  let program = process.argv[1];
  try {
    program = fs.realpathSync(program);
  } catch {}
  if (process.env.NODE_TEST_CONTEXT) {
    if (leftOut.includes(program)) process.exit(0);
    delete process.env.YOUBENCHA_LEFT_OUT; // the programs that a test starts are not test files
  }
  for (const runner of RUNNERS) {
    if (!runner.program.test(program)) continue;
    const options = runner.reporting(`${report}node-${process.pid}.json`);
    const scripts = leftOut.filter((file) => /\.[cm]?[jt]sx?$/.test(file)); // a runner compares each with all it finds
    if (scripts.length && majorVersion(program) >= runner.since) options.push(...runner.leavingOut(scripts));
    const end = process.argv.indexOf("--");
    process.argv.splice(end < 0 ? process.argv.length : end, 0, ...options);
  }
}

const { YOUBENCHA_TEST_REPORT: report, YOUBENCHA_LEFT_OUT: leftOut } = process.env;
if (isMainThread && report && process.argv[1]) {
  main(report, leftOut ? JSON.parse(fs.readFileSync(leftOut, "utf8")) : []);
}
