module.exports = (day) => (day % 29 < 15 ? "waxing" : "waning");
module.exports.fullIn = (day) => (44 - (day % 29)) % 29;
