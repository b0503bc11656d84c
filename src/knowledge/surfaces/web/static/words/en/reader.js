export default {
  deleteDocument: "Delete",
  deleteIt: "Delete it",
  deletesThis: "This deletes the document with {passages} and its original. Nobody finds it any more, agents included.",
  keepIt: "Keep it",
  noSimilar: "No other document is like this one.",
  similar: "Similar",
  similarOnes: "Similar documents",
};
