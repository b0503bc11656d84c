export default {
  changedHint: "What you typed is still here, and nothing was overwritten. This is stored now:",
  changedMeanwhile: "Somebody changed this while you were writing.",
  discardDraft: "Discard it",
  draftKept: "Not saved yet. The draft stays in this tab.",
  editDocument: "Edit the document",
  editNote: "Edit the note",
  keepBoth: "Keep both: add mine as a new note",
  saveChanges: "Save",
  saveMine: "Save mine over it",
  changesSaved: "Saved. It can be found as it is now.",
  takeTheirs: "Take theirs",
  theirText: "The text that is stored now",
};
