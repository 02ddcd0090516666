// What the words of the page mean, shown where they stand.

const Terms = (() => {
  const meanings = {
    root: "The output at which a congestion tree begins: it is asked for more than it can carry, or its receiver is slower than its link. A root has the same letter and color in all runs of the page.",
    branch: "A link whose sender has packets but no credits, because the buffer behind it is full of packets that wait for a root.",
    "busy link": "A link that is in no tree. The darker it is, the more of its rate it carries.",
    victim: "A host that sends less than it offers because its packets wait behind packets for a root, although it does not send through that root.",
    contributor: "A host that sends through the root of a tree.",
    "Links in congestion trees": "Roots are links at which trees begin; branches are links that wait for a root.",
    "Bytes waiting, by root of the tree": "Bytes that wait in buffers for a root, over all trees that had this root.",
    "Received throughput": "Payload that receivers accepted per time.",
    "Outputs in the congestion state": "Outputs of switches that mark packets.",
    "Throttled flows": "Flows whose source sends more slowly because of notifications.",
    "CCT index of throttled flows": "The index into the congestion control table. A larger index means a longer delay between packets.",
    "Mean latency since injection": "Time from the first byte that leaves the sender to the last byte that arrives.",
    "Jain's index of the hosts": "Fairness: 1 if all receive the same, 1/n if one of n receives everything.",
    "Packets marked": "Packets that a switch marked (FECN on InfiniBand, ECN on Ethernet).",
    "Not sent by victims meanwhile": "What victims offered but could not send while a tree blocked them. No packet is dropped.",
    "bytes not sent": "What the victim offered but could not send while the tree blocked it. No packet is dropped.",
    "not sent": "The same, as a share of what it offered meanwhile.",
    "share of root": "The part of what passes the root that comes from this host.",
    depth: "Links from the root to the most distant branch.",
    branches: "The most links that waited for the root at the same time.",
    "bytes waiting": "The most bytes that waited for the root at the same time.",
    kind: "Silent: the root and its contributors stay. Windy: contributors also send elsewhere. Moving: the root changes.",
  };

  function start(page) {
    const tip = document.getElementById("tip");
    for (const element of document.querySelectorAll("[data-term], section.run thead th, .summary tbody th")) {
      const term = element.dataset.term ?? element.textContent;
      if (!(term in meanings)) continue;
      element.classList.add("term");
      const show = () => {
        const box = element.getBoundingClientRect();
        page.tip([term, meanings[term]], { clientX: box.left, clientY: box.bottom - 8 });
      };
      element.addEventListener("pointerenter", show);
      element.addEventListener("focus", show);
      element.addEventListener("pointerleave", () => { tip.hidden = true; });
      element.addEventListener("blur", () => { tip.hidden = true; });
      if (element.tabIndex < 0) element.tabIndex = 0;
    }
  }

  return { start, meanings };
})();
