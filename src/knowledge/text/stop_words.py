"""Stop words by language (ISO 639-1)."""

from __future__ import annotations

_WORD_LISTS = {
    "en": """
        a about after again all also am an and any are as at be because been before being below between both but
        by can could did do does doing down during each few for from further get had has have having he her here
        hers him his how i if in into is it its itself just me more most my no nor not of off on once only or
        other our ours out over own same she should so some such than that the their theirs them then there
        these they this those through to too under until up very was we were what when where which while who
        whom why will with would you your yours dont doesnt didnt isnt arent wasnt werent cant couldnt wont
        wouldnt im ive youre theres whats
    """,
    "de": """
        aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des
        dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
        er es euch für gibt habe haben hat hatte hier ich ihm ihn ihr ihre im in ist ja kann kein keine können
        man mehr mein meine mich mir mit nach nicht noch nur ob oder ohne sehr sein seine sich sie sind so über
        um und uns unser unter vom von vor war waren warum was weil welche welcher welches wenn wer werden wie
        wieder wird wir wo worden wurde wurden zu zum zur zwischen
    """,
    "fr": """
        ai as au aucun aussi aux avec avoir ce cela ces cet cette ceux comme comment dans de des deux dont du
        elle elles en entre est et eu eux être fait il ils j je l la là le les leur leurs lui ma mais me même
        mes moi mon n ne nos notre nous on ont ou où par pas peut plus pour pourquoi qu quand que quel quelle
        quelles quels qui quoi s sa sans se ses si son sont sous sur ta te tes toi ton tous tout toute toutes
        très tu un une vos votre vous y été
    """,
    "es": """
        a al algo ante antes aunque cada como cómo con contra cual cuál cuando cuándo de del desde donde dónde
        durante e el él ella ellas ellos en entre era es esa esas ese eso esos esta está están estas este esto
        estos fue ha hace han hasta hay la las le les lo los más me mi mientras muy no nos o otra otro para pero
        por porque puede qué que quien quién se según ser si sí sin sobre son su sus también te tiene todo todos
        tu un una uno unos y ya yo
    """,
    "it": """
        a ad ai al alla alle anche c che chi ci come con cosa cui d da dal dalla degli dei del della delle di
        dove due e è ed era essere fra gli ha hanno ho i il in io l la le lei li lo loro ma mi molto ne nei nel
        nella nelle no noi non o per perché più può qual quale quali quando quanto quella quelle quello questa
        queste questi questo se si sia sono su sua sue sul sulla suo suoi tra tu tutti tutto un una uno
    """,
    "pt": """
        a ao aos as até com como da das de dela dele depois do dos e é ela elas ele eles em entre era essa esse
        esta está este eu foi há isso isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos nós o
        onde os ou para pela pelas pelo pelos por porque qual quando que quem são se sem ser seu seus sua suas
        só também te tem ter todos tudo um uma você vocês
    """,
    "nl": """
        aan al alle als altijd bij binnen daar dan dat de deze die dit doen door dus een en er ge geen haar had
        heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kunnen maar me meer men met mij mijn na
        naar niet nog nu of om omdat onder ons ook op over te tegen toch toen tot u uit uw van veel voor waar
        waarom wanneer want waren was wat we welke wel werd wie wij wordt worden zal ze zich zij zijn zo zonder
        zou
    """,
    "sv": """
        alla allt att av bara blev bli blir da de dem den denna deras dess det detta dig din du då där efter ej
        eller en ett finns från för ha hade han har hennes hon honom hur här i icke in inte jag kan kunde man
        med mellan men mig min mot mycket när nu någon något några och om oss på sedan sig sin sitt skall ska
        som så till under upp ut utan vad var varför vem vi vid vilka vilken är över
    """,
    "da": """
        af alle alt anden at blev bliver da de dem den denne der deres det dette dig din dog du efter eller en
        end er et for fra ham han hans har havde hende her hun hvad hvem hver hvis hvor hvordan hvorfor i ikke
        ind jeg jo kan kunne man med meget men mig min mod når nogle nogen noget nu og også om op os over på
        selv sig sin skal som til ud under var ved vi vil være
    """,
    "no": """
        alle at av bare ble bli blir da de dem den denne der dere det dette du eller en enn er et etter for fra
        han hans har hun hva hvem hver hvis hvor hvordan hvorfor i ikke inn ja jeg kan kunne man med meg men mot
        mye må når noe noen nå og også om opp oss over på seg selv sin skal som så til under ut var ved vi vil
        være
    """,
    "fi": """
        ei eivät että hän he hänen ja jo joka jos jotka jotta kanssa koska kuin kuinka kun me mihin mikä miksi
        millä missä mitä mitään mukaan mutta myös ne niin niitä nyt oli olen olla olivat on ovat paitsi se sekä
        sen siitä sitä tai tämä tämän tässä te voi vain vaan
    """,
    "ru": """
        а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да для до его ее если
        есть еще же за здесь и из или им их к как какая какие какой когда кто ли либо между меня мне мы на над
        надо не него нет ни них но о об однако он она они оно от по под почему при про с со так также там то
        того только том у уже чего чем что чтобы эта эти это этого я
    """,
    "pl": """
        a albo ale bardzo bez był była było być by całe ci co czy dla do gdy gdzie go i ich ile im jak jaka
        jakie jako jest jego jej już kiedy kto która które który lub ma mnie może można na nad nie nich niż o od
        on ona oni oraz po pod przez przed przy są się tak także tam te tego tej ten to tu tylko tym w we więc
        wszystko z za ze że
    """,
    "tr": """
        ama ancak bazı ben bir biz bu böyle çok da daha de değil diye eğer en gibi hangi hem hep her için ile
        ise kadar ki kim mı mi mu mü nasıl ne neden nerede o olan olarak oldu olduğu onlar sen siz şu tüm var ve
        veya ya yok
    """,
    "cs": """
        a aby ale ani by byl byla bylo být co či do i já jak jako je jeho jejich jen ještě jsem jsou k kde kdo
        kdy která které který mezi na nebo než o od po pod pro proč proto při s se si tak také tato tedy ten
        tento to tom u už v ve však z za ze že
    """,
}

STOP_WORDS: dict[str, frozenset[str]] = {code: frozenset(words.split()) for code, words in _WORD_LISTS.items()}
