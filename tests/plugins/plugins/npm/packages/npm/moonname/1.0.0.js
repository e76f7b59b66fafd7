module.exports = (day) => (day % 29 < 15 ? "waxing" : "waning");
