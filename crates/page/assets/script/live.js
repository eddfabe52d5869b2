// Looks at the node once a second, and says when it is gone. The browser comes again by itself.

/** No look for so many milliseconds: the node is gone, or stands still. */
const PATIENCE = 4000;

/** Calls `seen(look)` for each look, and `lost(since)` while there is none. */
export function listen(seen, lost) {
  let last = Date.now();
  let opened;
  let source;
  const open = () => {
    source?.close();
    opened = Date.now();
    source = new EventSource("/v1/live");
    source.addEventListener("look", (event) => {
      last = Date.now();
      seen(JSON.parse(event.data));
    });
  };
  open();
  setInterval(() => {
    if (Date.now() - last <= PATIENCE) return;
    lost(last);
    // The browser gives up after an answer that is no stream, and waits for ever on a
    // connection whose other end has gone without a word.
    if (Date.now() - opened > PATIENCE) open();
  }, 1000);
}
