package integration

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/versity/versitygw/s3err"
)

// versitygw's suite compares the sentences of errors, and most tests ignore the status.
// test/testenv/setup.sh builds the suite with these functions in place of its own: they compare
// status and code. Their errors end with the status and code that were received.

func checkApiErr(err error, expected s3err.S3Error) error {
	var code smithy.APIError
	if !errors.As(err, &code) {
		return fmt.Errorf("expected %s, instead got %w", expected.BaseError().Code, err)
	}
	status := expected.BaseError().HTTPStatusCode // of an answer to a preflight, which the suite drops
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return compareStatusAndCode(expected, fmt.Sprint(status, " ", code.ErrorCode()))
}

func checkHTTPResponseApiErr(response *http.Response, expected s3err.S3Error) error {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	received := APIErrorResponse{}
	if err := xml.Unmarshal(body, &received); err != nil {
		return fmt.Errorf("%w: %s", err, response.Status)
	}
	received.HostID = fmt.Sprint(response.StatusCode)
	return compareS3ApiError(expected, &received)
}

func compareS3ApiError(expected s3err.S3Error, received *APIErrorResponse) error {
	if received == nil {
		return fmt.Errorf("expected %s, received nil", expected.BaseError().Code)
	}
	return compareStatusAndCode(expected, received.HostID+" "+received.Code) // setup.sh sets HostID to the status
}

func compareStatusAndCode(expected s3err.S3Error, received string) error {
	if want := fmt.Sprint(expected.BaseError().HTTPStatusCode, " ", expected.BaseError().Code); received != want {
		return fmt.Errorf("expected %s, instead got %s", want, received)
	}
	return nil
}
