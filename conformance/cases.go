package conformance

import "slices"

// Cases returns all cases, in the order in which they run.
func Cases() []Case {
	return slices.Concat(allCases...)
}

// allCases has the cases of each subject, in the order in which they run.
var allCases = [][]Case{
	blobCases, sizeCases, putCases, digestCases, etagCases, getCases, headCases, deleteCases,
	nameCases, badNameCases, moreNameCases, spellingCases, badAccountCases, accountCases,
	readConditionCases, ifRangeCases, conditionCases,
	oneRangeCases, ignoredRangeCases, unsatisfiableRangeCases, boundaryCases, rangeCases,
	metadataCases, tooLongCases, wrongCacheControlCases, wrongMetadataCases, cachingCases, expiryCases,
	copyCases, copySizeCases, wrongCopyCases, moveCases, moveSizeCases, hiddenCopyCases,
	listCases, listAfterCases, moreListCases, wrongListCases, accountListCases,
	changeCases, wrongChangesCases, webhookCases,
	uploadCases, wrongPartCases, wrongUploadListCases, wrongUploadStatusCases, gapCases, wrongBeginCases,
	sessionCases, unknownSessionCases, wrongSessionCases, wrongKeyCases, jsonCases,
	methodCases, unknownRouteCases, headOfRouteCases, nosniffCases, errorCases, serviceCases,
	hostedCases, needKeyCases, needAdminCases, notHostedCases, adminCases, adminRefusals, placeCases, badPlaceCases,
	versionCases, badKeepingCases, badVersionCases, ruleCases, badRuleCases,
	foreignHostCases, foreignOriginCases, ownOriginCases, ignoredKeyCases, localCases, inspectionCases, faultCases,
	channelCases, localChannelCases, wrongChannelCases, wrongDepositCases, unknownChannelCases,
	micropaymentCases, signatureCases, formCases, wrongTermsCases, damageCases, notPaymentCases,
	paidReadCases, wrongMaximumCases, paidOrderCases, freeReadCases, faucetCases, noFaucetCases,
}
