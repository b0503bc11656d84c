export default {
  crawlAgain: "Noch einmal lesen",
  crawlLimit: { one: "höchstens {n} Seite", other: "höchstens {n} Seiten" },
  crawlOnePage: "eine Seite",
  crawlWithout: "ohne {patterns}",
  robotsAllows: "robots.txt verbietet keine der gefundenen Seiten.",
  robotsForbids: { one: "robots.txt verbietet {n} Seite; sie wurde nicht gelesen.", other: "robots.txt verbietet {n} Seiten; sie wurden nicht gelesen." },
  robotsWhich: "Zeigen, welche",
};
