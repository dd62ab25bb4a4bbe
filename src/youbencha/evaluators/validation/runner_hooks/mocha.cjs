// A reporter for mocha: what people read as always, and for us a file in the format of jest's JSON.
"use strict";
const fs = require("node:fs");
const { createRequire } = require("node:module");

module.exports = class {
  constructor(runner, options) {
    const { reporters } = createRequire(fs.realpathSync(process.argv[1]))("mocha");
    new reporters.Spec(runner, options);
    const suites = new Map();
    const add = (test, status) => {
      const file = test.file || "";
      if (!suites.has(file)) suites.set(file, { name: file, assertionResults: [] });
      suites.get(file).assertionResults.push({ fullName: test.fullTitle(), status });
    };
    runner.on("pass", (test) => add(test, "passed"));
    runner.on("fail", (test) => add(test, "failed"));
    runner.on("pending", (test) => add(test, "pending"));
    runner.on("end", () => {
      const report = `${process.env.YOUBENCHA_TEST_REPORT}node-${process.pid}.json`;
      fs.writeFileSync(report, JSON.stringify({ testResults: [...suites.values()] }));
    });
  }
};
