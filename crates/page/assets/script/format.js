// Numbers as people read them.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Three digits and a prefix: 12.3 k. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const [size, prefix] = PREFIXES.find(([size]) => Math.abs(number) >= size) ?? [1, ""];
  const value = number / size;
  const digits = prefix === "" && Number.isInteger(value) ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.max(Math.abs(value), 1))));
  return `${value.toFixed(digits)}${prefix === "" ? "" : ` ${prefix}`}`;
}

const joined = (number, unit) => (/[A-Za-z]$/.test(number) ? `${number}${unit}` : `${number} ${unit}`);

/** Packets per second; below one only whether there is any. */
export const rate = (number) => (number > 0 && number < 1 ? "< 1/s" : `${short(Math.abs(number) < 1000 ? Math.round(number) : number)}/s`);

/** Bits per second. */
export const bits = (number) => joined(short(Math.abs(number) < 1000 ? Math.round(number) : number), "bit/s");

/** Every digit, in groups of three. */
export const exact = (number) => Number(number).toLocaleString("en-US").replaceAll(",", "\u2009");

/** Cycles per packet. */
export const cycles = (number) => (number > 0 ? number.toFixed(number < 10 ? 1 : 0) : "–");

/** A share of all. */
export const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);

/** Nanoseconds as a time of a fitting unit. */
export function duration(nanoseconds) {
  const seconds = nanoseconds / 1e9;
  if (seconds < 1e-6) return `${Math.round(nanoseconds)} ns`;
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(1)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** The time of day. */
export const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");

/** `1 user`, `2 users`. */
export const counted = (number, noun) => `${exact(number)} ${noun}${number === 1 ? "" : "s"}`;
