#!/usr/bin/env node
const moonname = require("moonname");

const { day } = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify({ moon: moonname(day) }));
