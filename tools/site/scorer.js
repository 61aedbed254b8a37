// How search orders what it finds: Sphinx's own numbers, but a lesson first, a solution last.
var Scorer = {
  score: result => {
    const [page, , , , score] = result;
    if (page.startsWith("notebooks/solutions/")) return score / 100;
    if (page.startsWith("claims/")) return score / 2;
    if (page.startsWith("notebooks/records/")) return score * 2;
    if (page.startsWith("notebooks/") || page.startsWith("docs/")) return score * 3;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
