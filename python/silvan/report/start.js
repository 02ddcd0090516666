// Starts the page of a report.

Page.start().catch((error) => {
  document.body.classList.add("broken");
  console.error(error);
});
