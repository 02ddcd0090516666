// Shows the page of a run in a frame, and passes on what the kernel has sent.

export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    // The page may run its scripts, and has no access to the notebook.
    frame.setAttribute("sandbox", "allow-scripts");
    frame.title = "The run";
    Object.assign(frame.style, { width: "100%", height: `${model.get("height")}px`, border: "0" });
    let isReady = false;
    let sent = 0;
    const pass = () => {
      if (!isReady) return;
      const events = [];
      for (const count = model.get("count"); sent < count; sent += 1) events.push(...JSON.parse(model.get(`part_${sent}`)));
      if (events.length > 0) frame.contentWindow.postMessage(events, "*");
    };
    const receive = ({ source, data }) => {
      if (source !== frame.contentWindow || data !== "silvan-ready") return;
      [isReady, sent] = [true, 0];
      pass();
    };
    addEventListener("message", receive);
    model.on("change:count", pass);
    frame.srcdoc = model.get("page");
    el.append(frame);
    return () => {
      removeEventListener("message", receive);
      model.off("change:count", pass);
    };
  },
};
