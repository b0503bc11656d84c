export default {
  changedHint: "Was Sie geschrieben haben, ist noch da, und nichts wurde überschrieben. Gespeichert ist jetzt:",
  changedMeanwhile: "Jemand hat das geändert, während Sie geschrieben haben.",
  discardDraft: "Verwerfen",
  draftKept: "Noch nicht gespeichert. Der Entwurf bleibt in diesem Tab.",
  editDocument: "Dokument bearbeiten",
  editNote: "Notiz bearbeiten",
  keepBoth: "Beides behalten: meine als neue Notiz hinzufügen",
  saveChanges: "Speichern",
  saveMine: "Meine darüber speichern",
  changesSaved: "Gespeichert. So wird es jetzt gefunden.",
  takeTheirs: "Die andere übernehmen",
  theirText: "Der Text, der jetzt gespeichert ist",
};
