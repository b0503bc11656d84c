export default {
  deleteDocument: "Löschen",
  deleteIt: "Löschen",
  deletesThis: "Das löscht das Dokument mit {passages} und sein Original. Niemand findet es mehr, auch keine Agenten.",
  keepIt: "Behalten",
  noSimilar: "Kein anderes Dokument ist ähnlich.",
  similar: "Ähnliche",
  similarOnes: "Ähnliche Dokumente",
};
